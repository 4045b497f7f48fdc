package scenario

// Fields returns the fields of each map of a test file.
func Fields() map[string][]string {
	return map[string][]string{"file": fileFields, "test": testFields, "step": stepFields, "request": requestFields, "response": responseFields, "expectation": expectFields}
}
