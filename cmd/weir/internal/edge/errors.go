package edge

// elsewhere is the advice for a policy that nginx cannot decide.
const elsewhere = "put this policy behind /v1/auth, see docs/nginx.md"

// maxErrors is the number of faults that are reported.
const maxErrors = 50
