package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/floodweir/weir/e2e/programtest"
)

// deployed reads a YAML file of the tree.
func deployed[T any](t *testing.T, file string) T {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", file))
	if err != nil {
		t.Fatal(err)
	}
	var v T
	if err := yaml.Unmarshal(text, &v); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return v
}

// accepts checks that weir accepts a command line. With --help it parses the flags and runs
// nothing.
func accepts(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(programtest.Weir(t), args...).CombinedOutput(); err != nil {
		t.Errorf("weir %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestDeployCompose checks what deploy/compose mounts, publishes and runs. It starts nothing.
func TestDeployCompose(t *testing.T) {
	t.Parallel()
	const dir = "deploy/compose"
	compose := deployed[struct {
		Services map[string]struct {
			Image                   string
			Command, Ports, Volumes []string
			ReadOnly                bool `yaml:"read_only"`
		}
		Volumes map[string]any
	}](t, dir+"/compose.yaml")
	nodes := 0
	for name, s := range compose.Services {
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s: port %s is open to other machines", name, p)
			}
		}
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			if _, named := compose.Volumes[source]; named {
				continue
			}
			if _, err := os.Stat(filepath.Join("..", dir, source)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if strings.Contains(s.Image, "WEIR_IMAGE") {
			nodes++
			accepts(t, append(s.Command, "--help")...)
			if !s.ReadOnly || !slices.Contains(s.Volumes, "./weir.yaml:"+s.Command[1]+":ro") {
				t.Errorf("%s: want a read-only root with weir.yaml at %s", name, s.Command[1])
			}
		} else if !regexp.MustCompile(`:v?[0-9][^:]*$`).MatchString(s.Image) {
			t.Errorf("%s: image %s has no version", name, s.Image)
		}
	}
	if nodes != 2 {
		t.Errorf("got %d nodes, want 2", nodes)
	}
	accepts(t, "check", "../"+dir+"/weir.yaml")
	text, err := os.ReadFile("../" + dir + "/weir.yaml")
	if err != nil {
		t.Fatal(err)
	}
	quota := regexp.MustCompile(`(?m)^#   (grpc: .*quota_service.*)$`).FindSubmatch(text)
	if quota == nil {
		t.Fatal("weir.yaml has no comment with grpc.quota_service")
	}
	acceptsLimits(t, string(quota[1]), "domain: edge\ndescriptors: [{ key: user, rate_limit: { unit: second, requests_per_unit: 1000, algorithm: token_bucket } }]")
}

// acceptsLimits checks a policy file whose grpc.config is, or would be, a file with limits.
func acceptsLimits(t *testing.T, policies, limits string) {
	t.Helper()
	dir := t.TempDir()
	grpc := "grpc: { config: " + filepath.Join(dir, "limits.yaml") + ", "
	policies = strings.NewReplacer("grpc: { config: /etc/weir/limits.yaml, ", grpc, "grpc: { ", grpc).Replace(policies)
	for name, text := range map[string]string{"weir.yaml": policies, "limits.yaml": limits} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	accepts(t, "check", filepath.Join(dir, "weir.yaml"))
}

// TestDeployUnits checks the command lines and the confinement of the systemd units.
// `make packages` asks systemd-analyze about them too.
func TestDeployUnits(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"weir", "flashsale"} {
		text, err := os.ReadFile("../deploy/systemd/" + name + ".service")
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		for _, want := range []string{
			"EnvironmentFile=-/etc/" + name + "/" + name + ".env", "DynamicUser=yes", "ProtectSystem=strict", "NoNewPrivileges=yes",
			"CapabilityBoundingSet=", "SystemCallFilter=@system-service", "MemoryDenyWriteExecute=yes",
		} {
			if !slices.Contains(lines, want) {
				t.Errorf("%s.service has no %s", name, want)
			}
		}
		command := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/(\w+) (.*)$`).FindStringSubmatch(string(text))
		if command == nil || command[1] != name {
			t.Fatalf("%s.service: ExecStart = %q", name, command)
		}
		if name == "weir" {
			accepts(t, append(strings.Fields(command[2]), "--help")...)
		}
	}
}

// TestDeployPackages checks that each file of .goreleaser.yaml exists, and the configuration that
// packages install.
func TestDeployPackages(t *testing.T) {
	t.Parallel()
	n := 0
	var visit func(field string, v any)
	visit = func(field string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for field, v := range v {
				visit(field, v)
			}
		case []any:
			for _, v := range v {
				visit(field, v)
			}
		case string:
			if slices.Contains([]string{"src", "dockerfile", "postinstall", "preremove", "main"}, field) && !strings.HasPrefix(v, ".bin/") {
				n++
				if found, err := filepath.Glob(filepath.Join("..", v)); err != nil || len(found) == 0 {
					t.Errorf(".goreleaser.yaml: %s: no file %s", field, v)
				}
			}
		}
	}
	visit("", deployed[map[string]any](t, ".goreleaser.yaml"))
	if n < 20 {
		t.Errorf("found %d files in .goreleaser.yaml", n)
	}
	accepts(t, "check", "../deploy/packages/weir.yaml")
	environment, err := os.ReadFile("../deploy/packages/weir.env")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^#WEIR_(\w+)=(.*)$`).FindAllStringSubmatch(string(environment), -1) {
		accepts(t, "serve", "--"+strings.ReplaceAll(strings.ToLower(m[1]), "_", "-"), m[2], "--help")
	}
}

// TestDeployChart checks what the Helm chart says without Helm: its policies, its flags, and its
// values, which values.schema.json and the templates share. `make deploy-check` renders it, and loads the compose file.
func TestDeployChart(t *testing.T) {
	t.Parallel()
	const dir = "deploy/helm/weir"
	values := deployed[map[string]any](t, dir+"/values.yaml")
	policies := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(policies, []byte(values["config"].(string)), 0o600); err != nil {
		t.Fatal(err)
	}
	accepts(t, "check", policies)
	all := deployed[struct {
		Config string
		GRPC   struct{ Limits string } `yaml:"grpc"`
	}](t, "deploy/helm/testdata/all.yaml")
	acceptsLimits(t, all.Config, all.GRPC.Limits)
	schema := deployed[struct{ Properties map[string]any }](t, dir+"/values.schema.json")
	for name := range values {
		if schema.Properties[name] == nil {
			t.Errorf("values.schema.json has no %s", name)
		}
	}
	files, err := filepath.Glob("../" + dir + "/templates/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("templates = %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\.Values\.(\w+)`).FindAllStringSubmatch(string(text), -1) {
			if _, ok := values[m[1]]; !ok {
				t.Errorf("%s: values.yaml has no %s", file, m[1])
			}
		}
		for _, flag := range regexp.MustCompile(`(?m)^ +- (--[a-z-]+)=`).FindAllStringSubmatch(string(text), -1) {
			accepts(t, "serve", flag[1]+"=x", "--help")
		}
	}
}
