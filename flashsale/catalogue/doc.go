// Package catalogue describes the products of a flash sale: text, pictures and the original price.
// A shop implements [Catalogue] in its own module, or serves the HTTP form of [HTTP] in another
// language. Merchants can also write a product in the office.
//
// # Copies
//
// A sale shows a copy of its product, which is made when it is exposed. A catalogue that is slow
// or unavailable therefore has no effect on a running sale. The price of the sale is the one in
// the ledger.
//
// # Pictures
//
// Pictures are JPEG, PNG or WebP of up to 5 MB. They are decoded and encoded again. So the result
// is a picture, whatever a client declares, and has no metadata such as a place.
package catalogue
