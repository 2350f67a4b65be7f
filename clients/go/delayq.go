// Package delayq sends delayed tasks to a delayq server, and works on them.
//
//	app, err := delayq.New(delayq.Config{}) // DELAYQ_HTTP and DELAYQ_TOKEN
//	_, err = app.Send(ctx, "order.cancel", Order{42}, delayq.ID("order-42"), delayq.After(30*time.Minute))
//
//	delayq.Handle(app, "order.cancel", func(ctx context.Context, order Order) error {
//		return cancel(ctx, order)
//	}, delayq.Concurrency(4))
//	err = app.Run(ctx) // until SIGTERM or SIGINT
//
// A task is given to one worker at a time, never before it is due, and again if its worker died. So a
// handler may see a task twice: make its work repeatable, or pass [Task.Fence] to what it writes to.
package delayq

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

// Config says where the server is and how long calls may take. The zero value is complete if
// DELAYQ_HTTP and DELAYQ_TOKEN are set.
type Config struct {
	// URL is the address of the server, or of a namespace such as
	// http://127.0.0.1:7880/v1/default. The default is the variable DELAYQ_HTTP.
	URL string
	// Token is sent with every request. The default is the variable DELAYQ_TOKEN.
	Token string
	// Namespace is used if URL has none. The default is "default".
	Namespace string
	// Timeout limits one request; a wait for a reply or a task comes on top. The default is 10 s.
	Timeout time.Duration
	// Patience is how long a call is repeated while the server is away or its answer is lost. The
	// default is 30 s. A negative one means that every call is sent once.
	Patience time.Duration
	// Grace is how long running handlers may take after a stop. The default is 20 s; a negative one
	// means that they are told to stop at once.
	Grace time.Duration
	// HTTPClient carries the requests. The default is one without HTTP/2 and without redirects.
	HTTPClient *http.Client
	// Logger gets what a worker has to say. The default is slog.Default().
	Logger *slog.Logger
}

// App sends tasks to one namespace of a server and runs the handlers of their types. It is safe for
// concurrent use; a program needs one.
type App struct {
	base    string
	config  Config
	mu      sync.Mutex
	onSend  []func(context.Context, *Job)
	around  []Middleware
	workers map[string]*worker
	pool    *pool
	// isVirtual: time passes only in the hands of a test.
	isVirtual bool
}

// New checks the configuration; it does not connect.
func New(config Config) (*App, error) {
	config.Token = cmp.Or(config.Token, os.Getenv("DELAYQ_TOKEN"))
	config.Timeout = cmp.Or(config.Timeout, 10*time.Second)
	config.Patience = cmp.Or(config.Patience, 30*time.Second)
	config.Grace = cmp.Or(config.Grace, 20*time.Second)
	config.Logger = cmp.Or(config.Logger, slog.Default())
	config.HTTPClient = httpClient(config.HTTPClient)
	base, refused := baseURL(cmp.Or(config.URL, os.Getenv("DELAYQ_HTTP")), config.Namespace)
	switch {
	case refused != nil:
		return nil, refused
	case config.Token == "":
		return nil, refuse("no token: set Config.Token or the variable DELAYQ_TOKEN")
	case strings.ContainsAny(config.Token, " \t\r\n"):
		return nil, refuse("the token has a blank or a line break in it: remove it")
	}
	return &App{base: base, config: config, workers: map[string]*worker{}}, nil
}

// OnSend has every job of Send, SendAll and [Task.Then] pass through hook, which may apply options
// such as [Header] to it.
func (a *App) OnSend(hook func(ctx context.Context, job *Job)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.onSend = append(a.onSend, hook)
}

func baseURL(address, namespace string) (string, *Error) {
	at, err := url.Parse(strings.TrimRight(address, "/"))
	switch {
	case address == "":
		return "", refuse("no address: set Config.URL or DELAYQ_HTTP, such as http://127.0.0.1:7880/v1/default")
	case err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https":
		return "", refuse("the url %q must begin with http:// or https:// and a host", address)
	case at.User != nil || at.RawQuery != "" || at.ForceQuery || at.Fragment != "":
		return "", refuse("the url %s://%s.. has no user, query or fragment: use Config.Token", at.Scheme, at.Host)
	}
	before, named, isNamed := strings.Cut(at.EscapedPath(), "/v1/")
	if isNamed && (strings.Contains(named, "/") || namespace != "" && namespace != named) {
		return "", refuse("the url %q must end with /v1/NAMESPACE, and Config.Namespace say no other one", address)
	}
	before, named = strings.TrimSuffix(before, "/v1"), cmp.Or(named, url.PathEscape(namespace), "default")
	return at.Scheme + "://" + at.Host + before + "/v1/" + named, nil
}

// httpClient is a copy of given, or a new one, whose limits are those of each call.
func httpClient(given *http.Client) *http.Client {
	client := http.Client{}
	if given != nil {
		client = *given
	} else if standard, ok := http.DefaultTransport.(*http.Transport); ok {
		own := standard.Clone()
		own.MaxIdleConnsPerHost, own.IdleConnTimeout = maxClaim, 25*time.Second // the server has 30 s
		// A dead HTTP/2 connection would take every call with it until the system notices.
		own.ForceAttemptHTTP2, own.TLSNextProto = false, map[string]func(string, *tls.Conn) http.RoundTripper{}
		client.Transport = own
	}
	client.Timeout = 0
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}
