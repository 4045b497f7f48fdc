package published

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/floodweir/weir/internal/revision"
	"github.com/floodweir/weir/redisstore"
)

// EdgeError returns the reason why the current version has no plan for nginx; "" if it has one, or
// if none was published.
func EdgeError(ctx context.Context, conn redisstore.Conn) (string, error) {
	text, err := revision.Get(ctx, conn, key, "edge")
	if err != nil {
		return "", fmt.Errorf("published: %w", err)
	}
	var edge struct {
		Error string `json:"error"`
	}
	_ = json.Unmarshal([]byte(text), &edge) // nginx reports an invalid plan
	return edge.Error, nil
}
