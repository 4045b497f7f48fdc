package catalogue

import (
	"fmt"
	"slices"
	"strings"
)

// Changes returns what differs from what the sale showed before, for the audit log; empty if
// nothing does. Long texts are shortened.
func (s *Shown) Changes(before *Shown) string {
	var all []string
	changed := func(field, old, now string) {
		if old != now {
			all = append(all, field+" "+old+" → "+now)
		}
	}
	for _, t := range []struct {
		field    string
		old, now Text
	}{{"title", before.Title, s.Title}, {"description", before.Description, s.Description}} {
		text(changed, t.field+"_zh", t.old.ZH, t.now.ZH)
		text(changed, t.field+"_en", t.old.EN, t.now.EN)
	}
	changed("list_price", fmt.Sprint(before.ListPrice), fmt.Sprint(s.ListPrice))
	for _, p := range before.Pictures {
		if !slices.ContainsFunc(s.Pictures, func(o Picture) bool { return o.Hash == p.Hash }) {
			all = append(all, "removed picture "+short(p.Hash))
		}
	}
	for _, p := range s.Pictures {
		if !slices.ContainsFunc(before.Pictures, func(o Picture) bool { return o.Hash == p.Hash }) {
			all = append(all, "added picture "+short(p.Hash))
		}
	}
	for _, v := range before.Variants {
		if !slices.ContainsFunc(s.Variants, func(o Variant) bool { return o.SKU == v.SKU }) {
			all = append(all, fmt.Sprintf("removed variant %q", v.SKU))
		}
	}
	for _, v := range s.Variants {
		i := slices.IndexFunc(before.Variants, func(o Variant) bool { return o.SKU == v.SKU })
		if i < 0 {
			all = append(all, fmt.Sprintf("added variant %q for %d", v.SKU, v.Price))
			continue
		}
		old, field := before.Variants[i], fmt.Sprintf("variant %q ", v.SKU)
		text(changed, field+"name_zh", old.Name.ZH, v.Name.ZH)
		text(changed, field+"name_en", old.Name.EN, v.Name.EN)
		changed(field+"price", fmt.Sprint(old.Price), fmt.Sprint(v.Price))
	}
	return strings.Join(all, ", ")
}

// text reports a change of a text, of which it shows the first characters.
func text(changed func(field, old, now string), field, old, now string) {
	if old == now {
		return
	}
	if a, b := fmt.Sprintf("%.40q", old), fmt.Sprintf("%.40q", now); a != b {
		changed(field, a, b)
	} else {
		changed(field, a, b+" …") // they differ further on
	}
}

// short returns the first characters of a hash.
func short(hash string) string { return hash[:min(len(hash), 12)] }
