package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// checkImage builds the image of a program for this processor as goreleaser would, without a
// daemon, and runs the program in it, as its user, with a read-only root.
func (s *snapshot) checkImage(ctx context.Context, w io.Writer, program string) error {
	context, err := s.imageContext(program)
	if err != nil {
		return err
	}
	buildah := func(args ...string) (string, error) {
		stores := []string{"--root", filepath.Join(s.temp, "images"), "--runroot", filepath.Join(s.temp, "images.run"), "--storage-driver", "vfs"}
		return output(ctx, "buildah", append(stores, args...)...)
	}
	if _, err := buildah("build", "--isolation", "chroot", "--platform", "linux/"+runtime.GOARCH, "--timestamp", "0", "-t", program,
		"-f", "deploy/image/"+program+".Dockerfile", context); err != nil {
		return err
	}
	text, err := buildah("inspect", "--type", "image", program)
	if err != nil {
		return err
	}
	var image struct {
		OCIv1 struct {
			Config struct {
				User       string
				Entrypoint []string
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &image); err != nil {
		return err
	}
	if config := image.OCIv1.Config; config.User != imageUser || !slices.Equal(config.Entrypoint, []string{"/usr/bin/" + program}) {
		return fmt.Errorf("got user %q and entrypoint %q, want %s and the program", config.User, config.Entrypoint, imageUser)
	}
	container, err := buildah("from", program)
	if err != nil {
		return err
	}
	root, err := buildah("mount", strings.TrimSpace(container))
	if err != nil {
		return err
	}
	return runImage(ctx, w, program, strings.TrimSpace(root))
}

// imageContext returns a directory with the files that a Dockerfile copies.
func (s *snapshot) imageContext(program string) (string, error) {
	dir := filepath.Join(s.temp, "context", program)
	i := slices.IndexFunc(s.artifacts, func(a artifact) bool {
		return a.Type == "Binary" && a.Extra.ID == program && a.Goos == "linux" && a.Goarch == runtime.GOARCH
	})
	if i < 0 {
		return "", fmt.Errorf("no program for linux/%s", runtime.GOARCH)
	}
	for to, from := range map[string]string{
		"linux/" + runtime.GOARCH + "/" + program: s.artifacts[i].Path,
		staged + "/ca-certificates.crt":           filepath.Join(s.tree, staged, "ca-certificates.crt"),
		staged + "/" + linkArchive:                filepath.Join(s.tree, staged, linkArchive),
	} {
		data, err := os.ReadFile(from)
		if err != nil {
			return "", err
		}
		if err := writeFile(filepath.Join(dir, to), data); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// runImage checks that the root of an image has no other program, and runs this one in it.
func runImage(ctx context.Context, w io.Writer, program, root string) error {
	var files []string
	size := int64(0)
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size()
			files = append(files, strings.TrimPrefix(file, root))
		}
		return err
	})
	if err != nil {
		return err
	}
	want := []string{"/etc/ssl/certs/ca-certificates.crt", "/usr/bin/" + program}
	if program == "weir" {
		want = append([]string{"/bin/ratelimit"}, want...)
	}
	if !slices.Equal(files, want) {
		return fmt.Errorf("got files %v, want %v", files, want)
	}
	user, group, _ := strings.Cut(imageUser, ":")
	in := []string{"bwrap", "--unshare-all", "--share-net", "--die-with-parent", "--uid", user, "--gid", group, "--cap-drop", "ALL", "--ro-bind", root, "/"}
	command := append(in[:len(in):len(in)], "/usr/bin/"+program)
	if _, err := output(ctx, command[0], append(command[1:len(command):len(command)], "version")...); err != nil {
		return err
	}
	fmt.Fprintf(w, "ok  image %s: %.1f MB, no shell, runs as %s with a read-only root\n", program, float64(size)/1e6, imageUser)
	if program != "weir" {
		return nil
	}
	took, err := firstAnswer(ctx, command...)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "ok  image %s: first answer %v after the start\n", program, took.Round(time.Millisecond))
	return runRatelimit(ctx, w, in)
}

// runRatelimit runs /bin/ratelimit of the image as Envoy Gateway does, before its control plane is
// available.
func runRatelimit(ctx context.Context, w io.Writer, in []string) error {
	env := []string{"WEIR_STORE=memory", "HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL=127.0.0.1:1",
		"FORCE_START_WITHOUT_INITIAL_CONFIG=true"}
	url := ""
	for _, name := range []string{"GRPC_PORT", "DEBUG_PORT", "PORT"} {
		addr, err := freeAddress()
		if err != nil {
			return err
		}
		_, port, _ := strings.Cut(addr, ":")
		env = append(env, name+"="+port)
		url = "http://" + addr + "/healthcheck"
	}
	if _, err := untilReady(ctx, url, env, append(in[:len(in):len(in)], "/bin/ratelimit")...); err != nil {
		return err
	}
	fmt.Fprintln(w, "ok  image weir: /bin/ratelimit is healthy")
	return nil
}
