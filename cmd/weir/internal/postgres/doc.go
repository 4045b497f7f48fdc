// Package postgres connects the program to PostgreSQL, checks that the server can keep limits, and
// applies the schema of package pgstore.
package postgres
