package guard

import "encoding/json"

// MarshalJSON is s as ServeHTTP tells it.
func (s Status) MarshalJSON() ([]byte, error) { return json.Marshal(s.json()) }
