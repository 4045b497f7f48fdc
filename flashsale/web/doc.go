// Package web is the HTTP interface of a flash sale, as API.md describes it: the shop for
// buyers and the office for merchants.
package web
