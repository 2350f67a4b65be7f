package delayq_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	delayq "github.com/delayq/delayq/clients/go"
)

const token = "dq_first_0123456789abcdef0123456789abcdef01"

// server is a delayq-server of the tests, with its configuration in a folder of its own.
type server struct {
	url, folder string
	process     *exec.Cmd
}

var shared struct {
	once   sync.Once
	server *server
}

// binary is the program of the server, from DELAYQ_SERVER or a build of the workspace.
func binary() string {
	for _, path := range []string{os.Getenv("DELAYQ_SERVER"), "../../target/release/delayq-server", "../../target/debug/delayq-server"} {
		if _, err := os.Stat(path); path != "" && err == nil {
			path, _ = filepath.Abs(path)
			return path
		}
	}
	return ""
}

// theServer is one server for all tests that do not stop it.
func theServer(t *testing.T) *server {
	t.Helper()
	shared.once.Do(func() {
		if binary() != "" {
			folder, err := os.MkdirTemp("", "delayq-go")
			if err != nil {
				t.Fatal(err)
			}
			shared.server = newServer(t, folder)
		}
	})
	if shared.server == nil {
		t.Skip("LEFT OUT: no delayq-server: build it, or set DELAYQ_SERVER to its path")
	}
	return shared.server
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.server != nil {
		shared.server.kill()
		_ = os.RemoveAll(shared.server.folder)
	}
	os.Exit(code)
}

func newServer(t *testing.T, folder string) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	config := fmt.Sprintf("listen = %q\nstore = %q\nhistory = %q\nbootstrap_token = %q\n",
		address, "sqlite:"+filepath.Join(folder, "s.sqlite"), "sqlite:"+filepath.Join(folder, "h.sqlite"), token)
	if err := os.WriteFile(filepath.Join(folder, "s.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &server{url: "http://" + address, folder: folder}
	s.start(t)
	return s
}

func (s *server) start(t *testing.T) {
	t.Helper()
	s.process = exec.Command(binary(), "--config", filepath.Join(s.folder, "s.toml"))
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if answer, err := http.Get(s.url + "/health/ready"); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == 200 {
				return
			}
		}
	}
	t.Fatal("the server does not get ready")
}

func (s *server) kill() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

// proxy stands between a client and the server and spoils what its fault says.
type proxy struct {
	*httptest.Server
	to    string
	fault atomic.Pointer[fault]
	seen  atomic.Int64
}

// fault is what happens to a request: true if it was spoiled. deliver passes it on and drops the
// answer.
type fault func(w http.ResponseWriter, r *http.Request, deliver func()) bool

func newProxy(t *testing.T, to string) *proxy {
	p := &proxy{to: to}
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(func() { p.CloseClientConnections(); p.Close() })
	return p
}

func (p *proxy) spoil(f fault) { p.fault.Store(&f) }
func (p *proxy) heal()         { p.fault.Store(nil) }

func (p *proxy) serve(w http.ResponseWriter, r *http.Request) {
	p.seen.Add(1)
	body, _ := io.ReadAll(r.Body)
	pass := func() (*http.Response, []byte) {
		sent, _ := http.NewRequestWithContext(r.Context(), r.Method, p.to+r.URL.RequestURI(), bytes.NewReader(body))
		sent.Header = r.Header.Clone()
		answer, err := http.DefaultClient.Do(sent)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return answer, text
	}
	if f := p.fault.Load(); f != nil && (*f)(w, r, func() { pass() }) {
		return
	}
	answer, text := pass()
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.StatusCode)
	_, _ = w.Write(text)
}

// times spoils the first n requests whose path contains what.
func times(n int64, what string, f fault) fault {
	var count atomic.Int64
	return func(w http.ResponseWriter, r *http.Request, deliver func()) bool {
		return strings.Contains(r.URL.Path, what) && count.Add(1) <= n && f(w, r, deliver)
	}
}

func lostAnswer(_ http.ResponseWriter, _ *http.Request, deliver func()) bool {
	deliver()
	panic(http.ErrAbortHandler)
}

func newApp(t *testing.T, at string, change ...func(*delayq.Config)) *delayq.App {
	t.Helper()
	config := delayq.Config{URL: at, Token: token, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	for _, one := range change {
		one(&config)
	}
	app, err := delayq.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return app
}

// work runs the app until the test ends, or stop is called, which waits for its end.
func work(t *testing.T, app *delayq.App) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- app.Work(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

// typeOf is a type that no other test uses.
func typeOf(t *testing.T) string {
	return strings.NewReplacer("/", ".", "#", ".").Replace(url.PathEscape(t.Name())) + fmt.Sprint(time.Now().UnixNano())
}

func get[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(20 * time.Second):
		t.Fatal("nothing came within 20 s")
		panic("unreachable")
	}
}

// until waits for a task that the server shows like this.
func until(t *testing.T, app *delayq.App, taskType, id string, is func(*delayq.TaskInfo) bool) *delayq.TaskInfo {
	t.Helper()
	var last *delayq.TaskInfo
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		info, err := app.Find(context.Background(), taskType, id)
		if err == nil && is(info) {
			return info
		}
		last = info
	}
	t.Fatalf("%s of %s stays %+v", id, taskType, last)
	return nil
}

func inState(state delayq.State) func(*delayq.TaskInfo) bool {
	return func(info *delayq.TaskInfo) bool { return info.State == state }
}
