// Package layers is the limits before a flash sale, built of Weir's public packages alone:
// L1 for each address, L2 for each user, L4 for the whole process, and the account of what
// every layer refused.
package layers
