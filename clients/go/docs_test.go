package delayq_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	delayq "github.com/delayq/delayq/clients/go"
)

var tracing = regexp.MustCompile(`(?m), delayqotel.Instrument$|^.*delayqotel.*$`)

var block = regexp.MustCompile("(?s)```go\n(.*?)```")

// blocks are the programs and fragments of a page.
func blocks(t *testing.T, page string) (programs, tests, fragments []string) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Skip("LEFT OUT: ", err)
	}
	for _, found := range block.FindAllStringSubmatch(string(text), -1) {
		switch code := found[1]; {
		case strings.Contains(code, "testing.T"):
			tests = append(tests, code)
		case strings.HasPrefix(code, "package main"):
			programs = append(programs, code)
		default:
			fragments = append(fragments, code)
		}
	}
	return programs, tests, fragments
}

// hasTracing: the modules of OpenTelemetry are on this machine.
func hasTracing() bool {
	command := exec.Command("go", "build", "./...")
	command.Dir, command.Env = "delayqotel", append(os.Environ(), "GOPROXY=off")
	return command.Run() == nil
}

// module is a folder with a module that uses the client, and its OpenTelemetry part if that is there.
func module(t *testing.T) string {
	folder := t.TempDir()
	here, _ := filepath.Abs(".")
	if !hasTracing() {
		t.Log("LEFT OUT: the fragment of OpenTelemetry: run `go mod download` in delayqotel")
		write(t, folder, "go.mod", fmt.Sprintf("module example.org/shop\n\ngo 1.22\n\nrequire github.com/delayq/delayq/clients/go v0.0.0\n\nreplace github.com/delayq/delayq/clients/go => %s\n", here))
		return folder
	}
	mod, _ := os.ReadFile("delayqotel/go.mod")
	text := strings.Replace(string(mod), "module github.com/delayq/delayq/clients/go/delayqotel", "module example.org/shop", 1)
	text += fmt.Sprintf("\nreplace github.com/delayq/delayq/clients/go => %s\n", here)
	text += fmt.Sprintf("\nrequire github.com/delayq/delayq/clients/go/delayqotel v0.0.0\nreplace github.com/delayq/delayq/clients/go/delayqotel => %s/delayqotel\n", here)
	sum, _ := os.ReadFile("delayqotel/go.sum")
	write(t, folder, "go.mod", text)
	write(t, folder, "go.sum", string(sum))
	return folder
}

func write(t *testing.T, folder, name, text string) {
	if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// build makes a program of code; run runs it, and ends it by SIGTERM unless it ends before.
func build(t *testing.T, folder, name, code string) string {
	if !hasTracing() {
		code = tracing.ReplaceAllString(code, "")
	}
	write(t, folder, name+"/main.go", code)
	program := filepath.Join(folder, name, "program")
	command := exec.Command("go", "build", "-mod=mod", "-o", program, "./"+name)
	command.Dir = folder
	if said, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s\n%v\n%s", code, err, said)
	}
	return program
}

func run(t *testing.T, program, says string, further ...string) {
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	command := exec.CommandContext(limited, program)
	command.Env = append(os.Environ(), "DELAYQ_HTTP="+theServer(t).url+"/v1/default", "DELAYQ_TOKEN="+token)
	out := &output{until: says, seen: make(chan struct{})}
	command.Stdout, command.Stderr = out, out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	var err error
	select {
	case err = <-ended:
	case <-out.seen:
		select {
		case err = <-ended: // it ends by itself
		case <-time.After(time.Second):
			_ = command.Process.Signal(syscall.SIGTERM)
			err = <-ended
		}
	}
	for _, text := range append(further, says) {
		if err != nil || !strings.Contains(out.text.String(), text) {
			t.Errorf("%v, or it does not say %q:\n%s", err, text, out.text.String())
		}
	}
}

type output struct {
	text  strings.Builder
	until string
	seen  chan struct{}
}

func (o *output) Write(text []byte) (int, error) {
	before := o.until != "" && strings.Contains(o.text.String(), o.until)
	o.text.Write(text)
	if !before && o.until != "" && strings.Contains(o.text.String(), o.until) {
		close(o.seen)
	}
	return len(text), nil
}

const frame = `package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"time"

	delayq "github.com/delayq/delayq/clients/go"
	"github.com/delayq/delayq/clients/go/delayqotel"
)

type Order struct {
	Number int "json:\"order\""
}

var _, _, _, _, _, _ = errors.New, fmt.Sprint, slog.Info, http.Handle, time.Now, delayqotel.Instrument

func run() error {
%s	return nil
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("every fragment has run")
}
`

const testFrame = `package order_test

import (
	"context"
	"testing"
	"time"

	delayq "github.com/delayq/delayq/clients/go"
	"github.com/delayq/delayq/clients/go/delayqtest"
)

`

func TestEveryProgramOfTheDocumentsRuns(t *testing.T) {
	theServer(t)
	folder := module(t)
	if _, err := newApp(t, theServer(t).url).Send(ctx, "payment.call", map[string]any{"id": "pay", "cents": 200}, delayq.ID("pay")); err != nil {
		t.Fatal(err)
	}

	programs, tests, fragments := blocks(t, "../../docs/guide/client-go.md")
	fragments[0] += "\n_, _ = ctx, app\n"
	body := fragments[0]
	for _, fragment := range fragments[1:] {
		body += "\nif err := func() error {\n" + "var err error; _ = err\n" + fragment + "\nreturn nil\n}(); err != nil {\nreturn err\n}\n"
	}
	body += "\nif _, err := app.Reply(ctx, \"payment.call\", \"pay\", 20*time.Second); err != nil {\nreturn err\n}\n"
	run(t, build(t, folder, "guide", fmt.Sprintf(frame, body)), "every fragment has run", "paid pay in attempt 1", "order-42 accepted", "\n400 <nil>\n", "bad-request 400")

	readme, _, _ := blocks(t, "README.md")
	run(t, build(t, folder, "readme", readme[0]), "cancel order 42")

	write(t, folder, "order/order_test.go", testFrame+tests[0])
	command := exec.Command("go", "test", "-mod=mod", "./order")
	command.Dir = folder
	if said, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
	if len(tests) != 1 || len(programs) != 0 || len(fragments) < 12 {
		t.Error(errors.New("a block is not run"), len(tests), len(programs), len(fragments))
	}
}

func TestTheExampleRuns(t *testing.T) {
	theServer(t)
	code, err := os.ReadFile("examples/order/main.go")
	if err != nil {
		t.Fatal(err)
	}
	run(t, build(t, module(t), "example", string(code)), "cancelled order 7 in attempt 2")
}
