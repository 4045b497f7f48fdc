package problem

import (
	"encoding/json"
	"net/http"
)

// WriteJSON sends v as JSON with status 200, or a problem document if it has no encoding.
func WriteJSON(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		Write(w, Problem{Status: http.StatusInternalServerError, Detail: "response not encoded as JSON"})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(body, '\n'))
}
