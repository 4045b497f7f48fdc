// Package plot draws series over time: as SVG for pages and as text for terminals.
//
//	c := plot.Chart{Title: "10/s", Unit: "requests/s", Span: 10, Series: []plot.Series{
//		{Name: "offered", Values: offered}, {Name: "admitted", Values: admitted},
//	}}
//	err := plot.SVG(w, "Steady traffic", []plot.Chart{c})
//
// An SVG has a light and a dark form, and shows the one that the reader prefers. It has
// no script and refers to nothing outside. The same charts give the same bytes.
package plot
