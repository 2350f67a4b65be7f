package delayq_test

import (
	"archive/zip"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// release returns the version of the client that delayqotel requires.
func release(t *testing.T) string {
	t.Helper()
	mod, err := os.ReadFile(filepath.Join("delayqotel", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(mod), "github.com/delayq/delayq/clients/go v")
	version, _, found := strings.Cut(rest, "\n")
	if !found {
		t.Fatal("delayqotel/go.mod requires no version of the client")
	}
	return "v" + version
}

// publish puts a module into a folder that is a module proxy.
func publish(t *testing.T, proxy, module, folder string) {
	t.Helper()
	at := filepath.Join(proxy, module, "@v")
	mod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	version := release(t)
	write(t, at, version+".mod", string(mod))
	write(t, at, version+".info", `{"Version":"`+version+`","Time":"2026-01-01T00:00:00Z"}`)
	file, err := os.Create(filepath.Join(at, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	archive := zip.NewWriter(file)
	defer archive.Close()
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		inner, _ := filepath.Rel(folder, path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (inner == "build" || inner == "delayqotel"):
			return filepath.SkipDir // a module of its own
		case entry.IsDir() || strings.HasPrefix(entry.Name(), "."):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		to, err := archive.Create(module + "@" + version + "/" + filepath.ToSlash(inner))
		if err == nil {
			_, err = to.Write(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestThePublishedModulesBuild(t *testing.T) {
	if !hasTracing() {
		t.Skip("LEFT OUT: run `go mod download` in delayqotel")
	}
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	proxy, folder := t.TempDir(), t.TempDir()
	publish(t, proxy, "github.com/delayq/delayq/clients/go", ".")
	publish(t, proxy, "github.com/delayq/delayq/clients/go/delayqotel", "delayqotel")
	write(t, folder, "go.mod", "module example.org/shop\n\ngo 1.22\n\nrequire github.com/delayq/delayq/clients/go/delayqotel "+release(t)+"\n")
	write(t, folder, "main.go", `package main

import (
	delayq "github.com/delayq/delayq/clients/go"
	"github.com/delayq/delayq/clients/go/delayqotel"
)

func main() {
	app, _ := delayq.New(delayq.Config{})
	delayqotel.Instrument(app)
}
`)
	own := t.TempDir()
	command := exec.Command("go", "build", "-modcacherw", "-mod=mod", "./...")
	command.Dir = folder
	command.Env = append(os.Environ(), "GOFLAGS=", "GOSUMDB=off", "GOMODCACHE="+own,
		"GOPROXY=file://"+proxy+",file://"+strings.TrimSpace(string(cache))+"/cache/download")
	if said, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
}
