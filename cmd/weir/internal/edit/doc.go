// Package edit serves the policy file to the console: the text in force, drafts with their
// faults and differences, changes of one field, publishing, versions and rollback.
//
//	h, err := edit.New(edit.Config{Source: source, Check: check})
//
// A [Source] keeps the versions: in Redis for all nodes, or in this process. A change
// names the version that it is based on, so that it cannot undo another one unseen. Its
// reason is in the list of versions and in the audit log.
//
// The form changes one field in the YAML and no other byte. What it cannot change so, it
// refuses.
//
// # Errors
//
// Every error is a problem document (RFC 9457). One about a conflict also has current and
// text, one about an invalid file faults.
package edit
