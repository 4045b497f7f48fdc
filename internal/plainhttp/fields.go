package plainhttp

import "net/http"

// A Pair is a field with one value. Name is canonical.
type Pair struct{ Name, Value string }

// Begin calls w.WriteHeader with further fields, which replace those of w.Header with the same names.
// The response to a plain request copies them to its Header only if that is called again.
func Begin(w http.ResponseWriter, status int, fields []Pair) {
	if of, ok := w.(*response); ok && status >= 200 {
		of.writeHeader(status, fields)
		return
	}
	Set(w.Header(), fields)
	w.WriteHeader(status)
}

// Set sets fields, which replace those of h with the same names.
func Set(h http.Header, fields []Pair) {
	for _, f := range fields {
		delete(h, f.Name)
	}
	values := make([]string, len(fields))
	for i, f := range fields {
		if known := h[f.Name]; known != nil {
			h[f.Name] = append(known, f.Value)
			continue
		}
		values[i] = f.Value
		h[f.Name] = values[i : i+1 : i+1]
	}
}

// has reports whether fields has one with a name.
func has(fields []Pair, name string) bool {
	for i := range fields {
		if fields[i].Name == name {
			return true
		}
	}
	return false
}
