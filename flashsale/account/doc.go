// Package account defines the accounts of merchants: the people who work in the office of a
// shop, each with a password and a role.
//
// # Roles
//
// A role includes the permissions of those before it. View reads, Service also handles orders and
// sees contact data of buyers. Manage also changes sales, products, webhooks and stock, and Owner
// also manages accounts. A merchant always has an enabled owner.
package account
