//go:build !race

package weir_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const home = "github.com/floodweir/weir"

// separate is a program that uses only the public packages, as programs of users do.
const separate = "flashsale"

// verification holds the packages that test, audit and load the separate program. Its
// product packages do not import them.
const verification = separate + "/verify"

// A row places a package in a layer.
type row struct {
	layer int
	std   []string // the only standard packages it may import; any if nil
	third []string // the modules of others that it may import; none if nil
	init  bool     // it may have func init, because its host finds extensions by it

	unsafe bool // it may import unsafe, for a reason in a decision record
}

// layout is policy, not a description: imports run down only, from a higher layer
// to a lower one, never sideways or up. A package without a row fails the test.
// To add a package, give it the lowest layer that works. To add a third-party
// module, write a decision record first
// (docs/decisions/0001-modules-and-layers.md, 0010-dependencies.md).
//
// A name that ends in /* stands for every package below it.
var layout = map[string]row{
	// Arithmetic: no clock, lock, context or I/O. It uses fmt for the errors of its
	// constructors alone, and time for Duration alone.
	"internal/algo": {layer: 0, std: []string{"errors", "fmt", "math", "math/bits", "time"}},

	"internal/socket":    {layer: 0, unsafe: true}, // system calls that the scheduler does not see: decision 0026
	"internal/plainhttp": {layer: 1},               // HTTP/1.1 on the goroutine of a connection
	"plainhttp":          {layer: 2},               // the same, for any http.Server

	"internal/fault":    {layer: 0}, // lists of invalid fields
	"internal/decoded":  {layer: 0}, // content encodings
	"internal/replay":   {layer: 0}, // request bodies that are read twice
	"internal/linger":   {layer: 0}, // handlers that outlast their client
	"internal/optional": {layer: 0}, // the optional interfaces of a ResponseWriter
	"internal/jsontext": {layer: 0}, // JSON in pieces
	"internal/bodycost": {layer: 2}, // the cost in a response
	"internal/usage":    {layer: 2}, // the usage of a language model in a response
	"internal/bodytext": {layer: 1}, // fields of forms and JSON texts
	"internal/outline":  {layer: 0}, // policies and limits as cmd/weir/internal/edge compiles them

	"memstore/internal/*": {layer: 0}, // data structures without limits

	"internal/waitqueue":   {layer: 0}, // FIFO queues of waiters, and the loop of a wait
	"internal/missing":     {layer: 0}, // arguments that were not given
	"internal/bounds":      {layer: 0}, // the sizes of requests
	"internal/roundtrip":   {layer: 0}, // reports of a store to the store over it
	"internal/batching":    {layer: 1}, // round trips to a store, shared by callers
	"internal/backoff":     {layer: 2}, // the pacer that clients share
	"internal/revision":    {layer: 3}, // changes of a hash in Redis
	"internal/adjusted":    {layer: 4}, // what operators set for single keys, in Redis
	"internal/fakestore":   {layer: 3}, // stores for tests
	"internal/fakeprotect": {layer: 3}, // a protection for tests
	"internal/porttest":    {layer: 0}, // free ports for tests
	"internal/rediskey":    {layer: 0}, // encoded keys and slots in Redis
	"internal/certtest":    {layer: 0}, // certificates for tests

	"":       {layer: 1}, // package weir
	"budget": {layer: 1}, // the usage in responses of language models, and its cost

	"budget/stream": {layer: 2}, // streams event by event, and their ends

	"memstore":                 {layer: 2},
	"pgstore":                  {layer: 4}, // with a ledger of shares
	"redisstore":               {layer: 2},
	"policy":                   {layer: 2},
	"policy/internal/*":        {layer: 1},
	"policy/internal/spelling": {layer: 0}, // normal forms of hosts and paths, which the index of policies shares

	"storetest/internal/*": {layer: 2}, // the slow model that stores are compared with

	"failover":  {layer: 3},
	"denycache": {layer: 3}, // denials of a store, repeated
	"enforce":   {layer: 3}, // policies and a store, for every interface
	"share":     {layer: 3}, // parts of limits, decided locally
	"storetest": {layer: 3},

	"share/internal/*":  {layer: 2}, // the arithmetic of parts
	"share/redisledger": {layer: 4}, // in Redis
	"share/ledgertest":  {layer: 4}, // the conformance suite of ledgers
	"share/regions":     {layer: 4}, // parts of limits for regions

	"protect": {layer: 2}, // protection by resource, for every interface

	"httplimit":           {layer: 4},
	"httplimit/limittest": {layer: 5}, // the suite of adapters to web frameworks
	"guard":               {layer: 4},
	"guard/instances":     {layer: 5}, // the list of limited functions of all processes, in Redis
	"transport":           {layer: 4},
	"rpclimit":            {layer: 5}, // shared by the gRPC and Connect interceptors

	"metrics": {layer: 4}, // what limits count, for any metrics library

	"contrib/prometheus":        {layer: 5, third: []string{"github.com/prometheus/client_golang"}},
	"contrib/otel":              {layer: 5, third: []string{"go.opentelemetry.io/otel"}},
	"contrib/rueidis":           {layer: 5, third: []string{"github.com/redis/rueidis"}},
	"contrib/goredis":           {layer: 5, third: []string{"github.com/redis/go-redis/v9"}},
	"contrib/grpc":              {layer: 6, third: []string{"google.golang.org/grpc", "google.golang.org/protobuf", "google.golang.org/genproto"}},
	"contrib/connect":           {layer: 6, third: []string{"connectrpc.com/connect", "google.golang.org/protobuf", "google.golang.org/genproto"}},
	"contrib/natsledger":        {layer: 5, third: []string{"github.com/nats-io/nats.go"}},
	"contrib/caddy":             {layer: 6, third: []string{"github.com/caddyserver/caddy/v2"}, init: true},
	"contrib/gin":               {layer: 5, third: []string{"github.com/gin-gonic/gin"}},
	"contrib/echo":              {layer: 5, third: []string{"github.com/labstack/echo/v5"}},
	"contrib/fiber":             {layer: 5, third: []string{"github.com/gofiber/fiber/v3", "github.com/valyala/fasthttp"}},
	"contrib/failsafe":          {layer: 5, third: []string{"github.com/failsafe-go/failsafe-go"}},
	"weirfile":                  {layer: 5},
	"weirfile/expr":             {layer: 3, third: []string{"cel.dev/cel-go", "cel.dev/expr", "google.golang.org/genproto", "google.golang.org/protobuf"}},
	"weirfile/published":        {layer: 4},                                        // policies in Redis, which nodes and programs follow
	"weirfile/strict":           {layer: 3, third: []string{"go.yaml.in/yaml/v4"}}, // YAML and its errors
	"weirfile/internal/grammar": {layer: 3},                                        // the fields of a file, for its reader and its JSON Schema
	"weirfile/internal/table":   {layer: 3},                                        // overrides in CSV

	// The interfaces of the program. None imports another; internal/run joins them.
	"cmd/weir/internal/atomicfile":              {layer: 0}, // replaces files
	"cmd/weir/internal/problem":                 {layer: 4}, // an error response that several interfaces send
	"cmd/weir/internal/access":                  {layer: 5}, // tokens and hosts, for several HTTP interfaces
	"cmd/weir/internal/keyid":                   {layer: 3}, // names of keys for actors that must not see them
	"cmd/weir/internal/audit":                   {layer: 4}, // who changed what, for several HTTP interfaces
	"cmd/weir/internal/adjustment":              {layer: 5}, // what operators set for single keys
	"cmd/weir/internal/certificate":             {layer: 5}, // certificates of listeners
	"cmd/weir/internal/setup":                   {layer: 4}, // what the configurations of stores share
	"cmd/weir/internal/postgres":                {layer: 5, third: []string{"github.com/lib/pq"}},
	"cmd/weir/internal/edge":                    {layer: 5}, // the plan of policies for nginx
	"cmd/weir/internal/progress":                {layer: 6, third: []string{"github.com/charmbracelet/x/term"}},
	"cmd/weir/internal/publish":                 {layer: 6}, // publishing, for its command and the admin interface
	"cmd/weir/internal/edit":                    {layer: 6, third: []string{"go.yaml.in/yaml/v4", "github.com/rogpeppe/go-internal"}},
	"cmd/weir/internal/plot":                    {layer: 5, third: []string{"github.com/guptarohit/asciigraph"}},
	"cmd/weir/internal/virtual":                 {layer: 5},                                                  // virtual time
	"cmd/weir/internal/nodes":                   {layer: 5},                                                  // the exchange between nodes, for the console
	"cmd/weir/internal/traffic":                 {layer: 5},                                                  // recent traffic, for the console
	"cmd/weir/internal/traffic/keystats":        {layer: 4, third: []string{"github.com/cespare/xxhash/v2"}}, // the keys in it
	"cmd/weir/internal/traffic/internal/decode": {layer: 0},                                                  // encodings of both
	"cmd/weir/internal/accesslog":               {layer: 5, third: []string{"github.com/tidwall/gjson"}},
	"cmd/weir/internal/replay":                  {layer: 6, third: []string{"github.com/tidwall/gjson"}},
	"cmd/weir/internal/ratelimit":               {layer: 5},                                                                                                                                                                                    // the configuration of envoyproxy/ratelimit
	"cmd/weir/internal/xds":                     {layer: 5, third: []string{"github.com/cenkalti/backoff/v5", "github.com/envoyproxy/go-control-plane", "google.golang.org/grpc", "google.golang.org/protobuf", "google.golang.org/genproto"}}, // limits of a control plane
	"cmd/weir/internal/nginxconf":               {layer: 5},                                                                                                                                                                                    // an nginx.conf, and the limits in it

	// The directive //weir:limit: its parser, the code that it generates, and the three
	// tools that add that code to a program.
	"cmd/weir/internal/directive": {layer: 4},
	"cmd/weir/internal/wrapper":   {layer: 5},
	"cmd/weir/internal/generate":  {layer: 6, third: []string{"golang.org/x/tools"}},
	"cmd/weir/internal/weave":     {layer: 6, third: []string{"golang.org/x/tools"}},
	"cmd/weir/internal/vetcheck":  {layer: 6, third: []string{"golang.org/x/tools"}},

	"cmd/weir/internal/rls": {layer: 6, third: []string{
		"github.com/envoyproxy/go-control-plane/envoy", "google.golang.org/grpc", "google.golang.org/protobuf",
	}},
	"cmd/weir/internal/rlqs": {layer: 6, third: []string{
		"github.com/envoyproxy/go-control-plane/envoy", "google.golang.org/grpc", "google.golang.org/protobuf",
	}},
	"cmd/weir/internal/respd":     {layer: 6, third: []string{"github.com/tidwall/redcon"}},
	"cmd/weir/internal/metrics":   {layer: 6, third: []string{"github.com/prometheus/client_golang", "github.com/prometheus/client_model"}},
	"cmd/weir/internal/telemetry": {layer: 6, third: []string{"go.opentelemetry.io/otel", "go.opentelemetry.io/contrib", "github.com/prometheus/client_golang", "google.golang.org/grpc"}},
	"cmd/weir/internal/encodings": {layer: 6, third: []string{"github.com/andybalholm/brotli", "github.com/klauspost/compress"}},
	"cmd/weir/internal/warning":   {layer: 6, third: []string{"github.com/cenkalti/backoff/v5"}},
	"cmd/weir/internal/watch":     {layer: 6, third: []string{"github.com/fsnotify/fsnotify"}},
	"cmd/weir/internal/top":       {layer: 7, third: []string{"charm.land/bubbletea/v2", "github.com/charmbracelet/x/ansi"}},
	"cmd/weir/internal/*":         {layer: 6},
	"cmd/weir/internal/rlsenv":    {layer: 7}, // the environment variables of envoyproxy/ratelimit
	"cmd/weir/internal/run":       {layer: 7, third: []string{"google.golang.org/grpc"}},
	"cmd/weir/internal/lab":       {layer: 7, third: []string{"github.com/spf13/cobra"}}, // the commands that try limits out
	"cmd/weir/internal/cli":       {layer: 8, third: []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/charmbracelet/x/term"}},
	"cmd/weir":                    {layer: 9},

	"cmd/weir/internal/xds/xdstest":     {layer: 6, third: []string{"github.com/envoyproxy/go-control-plane", "google.golang.org/grpc"}}, // a control plane for tests
	"cmd/weir/internal/nodes/nodestest": {layer: 5},                                                                                      // a Redis for tests of it

	// The flash sale: a separate program on the public packages.
	"flashsale/account":                     {layer: 5, third: []string{"golang.org/x/crypto"}},                                      // who works in the office
	"flashsale/payments":                    {layer: 5},                                                                              // what a shop implements to take payments
	"flashsale/payments/httpform":           {layer: 6},                                                                              // its HTTP form
	"flashsale/payments/stripe":             {layer: 6},                                                                              // a provider
	"flashsale/verify/paytest":              {layer: 7},                                                                              // a payment provider for tests
	"flashsale/cashier":                     {layer: 8},                                                                              // takes payments
	"flashsale/signing":                     {layer: 5, third: []string{"github.com/standard-webhooks/standard-webhooks/libraries"}}, // signed requests
	"flashsale/sale":                        {layer: 6},                                                                              // domain types
	"flashsale/identity":                    {layer: 6, third: []string{"github.com/coreos/go-oidc/v3", "github.com/go-jose/go-jose/v4", "golang.org/x/oauth2"}},
	"flashsale/crashpoint":                  {layer: 6}, // where tests kill a process; empty without a build tag
	"flashsale/pass":                        {layer: 7}, // signed tokens: sessions, tickets, receipts
	"flashsale/verify/inventorytest":        {layer: 7}, // the conformance suite of Inventory
	"flashsale/verify/inventorytest/random": {layer: 8}, // the same, by random commands against a model
	"flashsale/verify/webhooktest":          {layer: 8}, // the conformance suite of webhook.Store
	"flashsale/verify/curvetest":            {layer: 8}, // the conformance suite of Curves
	"flashsale/verify/ledgertest":           {layer: 7}, // the conformance suite of Ledger
	"flashsale/verify/ledgertest/random":    {layer: 8}, // the same, by random commands against a model
	"flashsale/meminventory":                {layer: 7}, // an Inventory in memory
	"flashsale/redisinventory":              {layer: 7, third: []string{"github.com/redis/rueidis"}},
	"flashsale/catalogue":                   {layer: 7, third: []string{"golang.org/x/image"}},
	"flashsale/ledger/internal/products":    {layer: 8},
	"flashsale/webhook":                     {layer: 7, third: []string{"github.com/prometheus/client_golang"}},
	"flashsale/ledger":                      {layer: 9},
	"flashsale/ledger/internal/accounts":    {layer: 8},
	"flashsale/ledger/internal/outbox":      {layer: 8}, // events and their deliveries
	"flashsale/ledger/internal/coalesce":    {layer: 7}, // concurrent calls in batches
	"flashsale/ledger/internal/curves":      {layer: 8}, // the figures of sales over time
	"flashsale/ledger/internal/database":    {layer: 7, third: []string{"github.com/jackc/pgx/v5", "modernc.org/sqlite", "github.com/pressly/goose/v3"}},
	"flashsale/verify/calllog":              {layer: 6},                                              // calls of buyers, from the load generator to the auditor
	"flashsale/verify/inventorystate":       {layer: 6, third: []string{"github.com/redis/rueidis"}}, // the auditor's reader of Redis
	"flashsale/verify/auditor":              {layer: 7, third: []string{"github.com/jackc/pgx/v5", "modernc.org/sqlite", "github.com/redis/rueidis"}},
	"flashsale/verify/lab":                  {layer: 7, third: []string{"github.com/redis/rueidis"}}, // an experiment with locks
	"flashsale/front":                       {layer: 7},                                              // configuration of the proxies before it
	"flashsale/captcha":                     {layer: 6},                                              // whether a visitor solved a captcha
	"flashsale/estimate":                    {layer: 6},                                              // how long a visitor waits
	"flashsale/shop":                        {layer: 8, third: []string{"github.com/google/uuid"}},
	"flashsale/layers":                      {layer: 7, third: []string{"github.com/prometheus/client_golang"}}, // the limits before the shop
	"flashsale/wire":                        {layer: 8},                                                         // requests and responses of web and office
	"flashsale/verify/load/measure":         {layer: 7},                                                         // latencies and the resources of processes
	"flashsale/verify/load/scan":            {layer: 7},                                                         // the fields of a JSON object
	"flashsale/verify/load":                 {layer: 8, third: []string{"github.com/valyala/fasthttp"}},
	"flashsale/pages":                       {layer: 8},
	"flashsale/verify/webtest":              {layer: 8},                                                                                      // the conformance suite of the HTTP API
	"flashsale/web":                         {layer: 9},                                                                                      // for buyers
	"flashsale/office":                      {layer: 9},                                                                                      // for merchants
	"flashsale/run":                         {layer: 10, third: []string{"github.com/redis/rueidis", "github.com/prometheus/client_golang"}}, // joins the parts
	"flashsale/command":                     {layer: 11, third: []string{"github.com/spf13/cobra", "github.com/spf13/pflag"}},                // what both programs share
	"flashsale/cli":                         {layer: 12, third: []string{"github.com/spf13/cobra"}},
	"flashsale/verify/cli":                  {layer: 12, third: []string{"github.com/spf13/cobra"}},
	"flashsale":                             {layer: 13},
	"flashsale/verify":                      {layer: 13},

	// Never tagged and never imported by lower layers.
	"benchmarks":                  {layer: 14},
	"benchmarks/compare":          {layer: 0}, // measures contenders in rounds
	"examples/*":                  {layer: 14, third: []string{"github.com/ThreeDotsLabs/watermill", "github.com/go-chi/chi/v5"}},
	"edge/nginx":                  {layer: 0}, // the Lua of the edge, embedded
	"e2e/*":                       {layer: 14, third: []string{"github.com/redis/rueidis", "github.com/redis/go-redis/v9", "github.com/jackc/pgx/v5", "github.com/chromedp"}},
	"e2e/flashsale/child/program": {layer: 15},                                                // the shop that tests kill
	"e2e/consoletest/serve":       {layer: 15},                                                // the console with example data
	"e2e/programtest":             {layer: 13},                                                // programs and files that tests build once
	"e2e/simulate/redismodel":     {layer: 13, third: []string{"github.com/yuin/gopher-lua"}}, // Redis for simulations

	// Programs for building and testing, outside the layers.
	"tools/*":       {layer: 0},
	"tools/release": {layer: 0, third: []string{"golang.org/x/mod"}},
	"tools/vet":     {layer: 0, third: []string{"golang.org/x/tools", "honnef.co/go/tools"}},
}

// TestLayers reads every Go file of every module.
func TestLayers(t *testing.T) {
	broken, files, err := inspect(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range broken {
		t.Error(b)
	}
	if files < 10 {
		t.Errorf("inspected %d files, want the whole tree", files)
	}
}

// inspect returns every breach of policy in tree, and how many files it read.
func inspect(tree fs.FS) (broken []string, files int, err error) {
	in := inspector{fset: token.NewFileSet(), packages: map[string][]*ast.File{}}
	var sources []string
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		base := path.Base(name)
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if name != "." && (base == "testdata" || base == "node_modules" || base[0] == '.' || base[0] == '_') {
				return fs.SkipDir
			}
		case base == "go.mod":
			return in.module(tree, name)
		case name == "go.sum":
			in.report(name, "the library requires nothing, so it has no go.sum")
		case path.Ext(name) == ".go":
			sources = append(sources, name)
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	for _, name := range sources {
		src, err := fs.ReadFile(tree, name)
		if err != nil {
			return nil, 0, err
		}
		f, err := parser.ParseFile(in.fset, name, src, parser.SkipObjectResolution)
		if err != nil {
			return nil, 0, err
		}
		in.file(name, f)
	}
	for _, dir := range slices.Sorted(maps.Keys(in.packages)) {
		in.state(in.packages[dir])
	}
	return in.broken, len(sources), nil
}

type inspector struct {
	fset     *token.FileSet
	modules  []string               // the directories of the modules but the library's
	packages map[string][]*ast.File // by directory, without tests
	broken   []string
}

func (in *inspector) report(where, format string, args ...any) {
	in.broken = append(in.broken, where+": "+fmt.Sprintf(format, args...))
}

func (in *inspector) at(n ast.Node) string { return in.fset.Position(n.Pos()).String() }

// module checks that a module has the name of its directory, and that the library's
// module requires nothing.
func (in *inspector) module(tree fs.FS, name string) error {
	text, err := fs.ReadFile(tree, name)
	if dir := path.Dir(name); dir != "." {
		in.modules = append(in.modules, dir)
	}
	want := path.Join(home, path.Dir(name))
	for line := range strings.Lines(string(text)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case word == "module" && rest != want:
			in.report(name, "got module %s, want %s", rest, want)
		case word == "require" && want == home:
			in.report(name, "the library is standard library only: require %s", rest)
		}
	}
	return err
}

// file checks the imports and the calls of one file.
func (in *inspector) file(name string, f *ast.File) {
	test := strings.HasSuffix(name, "_test.go")
	dir := path.Dir(name)
	own := strings.TrimPrefix(dir, ".")
	p, ok := rowOf(own)
	if !ok && !test {
		in.report(name, "package %s has no row in layout", path.Join(home, own))
		return
	}
	for _, s := range f.Imports {
		imported, _ := strconv.Unquote(s.Path.Value)
		if !test {
			in.imported(in.at(s), own, p, imported)
		}
		if in.library(dir) && !in.library(strings.TrimPrefix(strings.TrimPrefix(imported, home), "/")) && !isStd(imported) {
			in.report(in.at(s), "the library and its tests are standard library only: imports %s", imported)
		}
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == "init" && fn.Recv == nil && (test || !p.init) {
			in.report(in.at(fn), "func init: nothing happens before main, and nothing is registered globally")
		}
	}
	if test {
		in.sleeps(f)
		return
	}
	in.packages[dir] = append(in.packages[dir], f)
	if own == "internal/algo" {
		in.clockless(f)
	}
}

// library reports whether a package, by its directory, is of the library's module.
func (in *inspector) library(dir string) bool {
	return isStd(dir) && !slices.ContainsFunc(in.modules, func(m string) bool {
		return dir == m || strings.HasPrefix(dir, m+"/")
	})
}

// imported checks one import of the package own, which stands at p.
func (in *inspector) imported(where, own string, p row, imported string) {
	rel, ours := strings.CutPrefix(imported+"/", home+"/")
	switch {
	case ours:
		rel = strings.TrimSuffix(rel, "/")
		if under(own, separate) && !under(rel, separate) && strings.Contains("/"+rel+"/", "/internal/") {
			in.report(where, "%s imports an internal package of the library: %s", own, imported)
		}
		if under(own, separate) && !under(own, verification) && under(rel, verification) {
			in.report(where, "product package %s imports verification package %s", own, rel)
		}
		if q, ok := rowOf(rel); !ok {
			in.report(where, "imports %s, which has no row in layout", imported)
		} else if q.layer >= p.layer {
			in.report(where, "%s in layer %d imports %s in layer %d: imports run down only",
				cmp.Or(own, "weir"), p.layer, cmp.Or(rel, "weir"), q.layer)
		}
	case isStd(imported):
		// With a template package, the linker keeps all methods: a third of the program.
		templates := strings.HasSuffix(imported, "/template") && under(own, "cmd/weir")
		if templates || imported == "unsafe" && !p.unsafe || imported == "C" || p.std != nil && !slices.Contains(p.std, imported) {
			in.report(where, "%s may not import %s", cmp.Or(own, "weir"), imported)
		}
	case !slices.ContainsFunc(p.third, func(m string) bool { return imported == m || strings.HasPrefix(imported, m+"/") }):
		in.report(where, "%s may not import %s: a dependency is a decision", cmp.Or(own, "weir"), imported)
	}
}

// under reports whether pkg is the package dir or in a directory below it.
func under(pkg, dir string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") }

// rowOf finds the row of a package: its own, or the longest that ends in /*.
func rowOf(pkg string) (row, bool) {
	if p, ok := layout[pkg]; ok {
		return p, true
	}
	for dir := path.Dir(pkg); dir != "."; dir = path.Dir(dir) {
		if p, ok := layout[dir+"/*"]; ok {
			return p, true
		}
	}
	return row{}, false
}

// isStd reports whether an import path is the standard library's: its first
// element has no dot.
func isStd(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

// clockless allows nothing of package time but durations.
func (in *inspector) clockless(f *ast.File) {
	durations := []string{"Duration", "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour"}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && isName(s.X, localName(f, "time")) && !slices.Contains(durations, s.Sel.Name) {
			in.report(in.at(s), "arithmetic has no clock: time.%s", s.Sel.Name)
		}
		return true
	})
}

// sleeps forbids waiting for real time in a test, and skipping one. Under
// testing/synctest a sleep is how fake time passes.
func (in *inspector) sleeps(f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok {
			if s, ok := c.Fun.(*ast.SelectorExpr); ok && isName(s.X, localName(f, "testing/synctest")) {
				return false
			}
		}
		s, ok := n.(*ast.SelectorExpr)
		switch {
		case !ok:
		case isName(s.X, localName(f, "time")) && s.Sel.Name == "Sleep":
			in.report(in.at(s), "time.Sleep in a test: wait for what happens, or use testing/synctest")
		case (isName(s.X, "t") || isName(s.X, "b") || isName(s.X, "f")) && strings.HasPrefix(s.Sel.Name, "Skip"):
			in.report(in.at(s), "a skipped test proves nothing")
		}
		return true
	})
}

// localName returns the name of an imported package in f, or "".
func localName(f *ast.File, imported string) string {
	for _, s := range f.Imports {
		if s.Path.Value == strconv.Quote(imported) {
			if s.Name != nil {
				return s.Name.Name
			}
			return path.Base(imported)
		}
	}
	return ""
}

func isName(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && name != "" && id.Name == name
}

// state forbids variables of a package that change: ones that its functions
// assign to, take the address of or delete from, and ones made of locks and
// atomics. A sync.Pool holds no state that a caller sees, and sync.OnceValue is a
// constant that is computed late.
func (in *inspector) state(files []*ast.File) {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Error: func(error) {}} // imports are not resolved, names of this package are
	pkg, _ := conf.Check("p", in.fset, files, info)
	changed := func(e ast.Expr) {
		for {
			switch x := e.(type) {
			case *ast.IndexExpr:
				e = x.X
			case *ast.SelectorExpr:
				e = x.X
			case *ast.StarExpr:
				e = x.X
			case *ast.ParenExpr:
				e = x.X
			case *ast.Ident:
				if v, ok := info.Uses[x].(*types.Var); ok && v.Parent() == pkg.Scope() {
					in.report(in.at(x), "package variable %s changes: state belongs to a value that a constructor returns", x.Name)
				}
				return
			default:
				return
			}
		}
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.AssignStmt:
				for _, e := range x.Lhs {
					changed(e)
				}
			case *ast.IncDecStmt:
				changed(x.X)
			case *ast.UnaryExpr:
				if x.Op == token.AND {
					changed(x.X)
				}
			case *ast.CallExpr:
				if isName(x.Fun, "delete") || isName(x.Fun, "clear") {
					changed(x.Args[0])
				}
			}
			return true
		})
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
				in.locks(f, g)
			}
		}
	}
}

// locks forbids package variables made of sync and sync/atomic.
func (in *inspector) locks(f *ast.File, g *ast.GenDecl) {
	ast.Inspect(g, func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok {
			return false
		}
		s, ok := n.(*ast.SelectorExpr)
		if ok && (isName(s.X, localName(f, "sync")) && s.Sel.Name != "Pool" && !strings.HasPrefix(s.Sel.Name, "OnceValue") ||
			isName(s.X, localName(f, "sync/atomic"))) {
			in.report(in.at(s), "package variable with a %s: state belongs to a value that a constructor returns", s.Sel.Name)
		}
		return true
	})
}
