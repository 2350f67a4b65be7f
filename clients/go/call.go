package delayq

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	urn        = "urn:delayq:problem:"
	unexpected = "unexpected-answer"
	jsonType   = "application/json"
)

// request is what a call sends, once or several times.
type request struct {
	method  string
	path    []string
	query   url.Values
	header  map[string]string
	body    []byte
	timeout time.Duration // instead of that of the configuration
	wait    time.Duration // how long the server may take on top of it
	// patience replaces that of the configuration, and has a refusal repeated that may be lifted,
	// such as one of a token.
	patience time.Duration
	stop     context.Context // ends the request until its answer begins to arrive
}

type answer struct {
	status int
	kind   string
	body   []byte
}

// call sends a request until its answer is certain or the patience is over, and decodes the answer.
// Only requests that may be repeated come here.
func (a *App) call(ctx context.Context, r request, into any) (answer, error) {
	deadline := time.Now().Add(cmp.Or(r.patience, a.config.Patience) + r.wait)
	for n, isInDoubt := 0, false; ; n++ {
		got, err := a.try(ctx, r, into)
		if err == nil {
			return got, nil
		}
		isInDoubt = isInDoubt || err.IsInDoubt
		err.IsInDoubt = isInDoubt
		isFinal := !err.IsRepeatable && (r.patience == 0 || err.Status/100 == 4 && err.Status != 401)
		pause := max(err.RetryAfter, backoff(n))
		if isFinal || time.Now().Add(pause).After(deadline) || sleep(ctx, pause) != nil {
			return got, err
		}
	}
}

// fetch calls the server for a T.
func fetch[T any](ctx context.Context, a *App, r request) (*T, error) {
	into := new(T)
	if _, err := a.call(ctx, r, into); err != nil {
		return nil, err
	}
	return into, nil
}

// try sends a request once.
func (a *App) try(ctx context.Context, r request, into any) (answer, *Error) {
	limited, cancel := context.WithTimeout(ctx, cmp.Or(r.timeout, a.config.Timeout)+r.wait)
	defer cancel()
	address := a.base
	for _, segment := range r.path {
		if segment == "" {
			return answer{}, refuse("a type, an id or a name is empty")
		}
		address += "/" + strings.ReplaceAll(url.QueryEscape(segment), "+", "%20")
	}
	sent, err := http.NewRequestWithContext(limited, r.method, address, bytes.NewReader(r.body))
	if err != nil {
		return answer{}, refuse("the request cannot be sent: %v", err)
	}
	for name, value := range r.header {
		if value != "" || name != "Content-Type" {
			sent.Header.Set(name, value)
		}
	}
	sent.URL.RawQuery = r.query.Encode()
	sent.Header.Set("Authorization", "Bearer "+a.config.Token)
	sent.Header.Set("User-Agent", "delayq-go")
	unlink := func() bool { return true }
	if r.stop != nil {
		unlink = context.AfterFunc(r.stop, cancel)
	}
	response, err := a.config.HTTPClient.Do(sent)
	unlink()
	if err != nil {
		return answer{}, unreached(err, ctx.Err() == nil)
	}
	defer response.Body.Close()
	got := answer{status: response.StatusCode, kind: response.Header.Get("Content-Type")}
	if got.body, err = io.ReadAll(response.Body); err != nil {
		return answer{}, unreached(err, ctx.Err() == nil)
	}
	if got.status >= 300 || into != nil && got.status != 204 && json.Unmarshal(got.body, into) != nil {
		return got, problem(got.status, response.Header, got.body)
	}
	return got, nil
}

// unreached is the error of a request without an answer.
func unreached(err error, isRepeatable bool) *Error {
	e := &Error{Kind: "unavailable", Title: "the server is not reached", Detail: err.Error(), cause: err}
	var dial *net.OpError
	switch {
	case errors.Is(err, http.ErrSchemeMismatch):
		e.Detail = "the server speaks no TLS: begin the url with http://"
	case strings.Contains(e.Detail, `malformed HTTP response "\x15`):
		e.Detail = "the server speaks TLS: begin the url with https://"
	case errors.As(err, new(*tls.CertificateVerificationError)):
	case strings.Contains(e.Detail, "invalid header field"):
		return refuse("the headers of a task are text without control characters: %v", err)
	default:
		isDial := errors.As(err, &dial) && dial.Op == "dial"
		e.IsRepeatable, e.IsInDoubt = isRepeatable, !isDial
	}
	return e
}

// problem is the error of an answer, or of a line of one whose status is 0.
func problem(status int, header http.Header, body []byte) *Error {
	e := new(Error)
	if json.Unmarshal(body, e) != nil || !strings.HasPrefix(e.Kind, urn) {
		e = &Error{Kind: unexpected, Title: "the answer is not that of a delayq server", Status: status}
		e.Detail = fmt.Sprintf("%d %s %s: check the url", status, http.StatusText(status), header.Get("Location"))
	}
	e.Kind, e.Status = strings.TrimPrefix(e.Kind, urn), cmp.Or(status, e.Status)
	switch e.Status {
	case 502, 504:
		e.IsRepeatable, e.IsInDoubt = true, true
	case 408, 429, 503, 507:
		e.IsRepeatable = true
	}
	seconds, _ := strconv.Atoi(header.Get("Retry-After"))
	e.RetryAfter = max(e.RetryAfter, time.Duration(seconds)) * time.Second
	return e
}

// backoff is the wait after failure n, from 0: up to 100 ms, doubled up to 5 s, half of it random.
func backoff(n int) time.Duration {
	longest := min(100*time.Millisecond<<min(n, 10), 5*time.Second)
	return longest/2 + rand.N(longest/2)
}

func sleep(ctx context.Context, wait time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	<-limited.Done()
	return ctx.Err()
}

// millis is a span in whole milliseconds, rounded up so that nothing is early.
func millis(span time.Duration) string {
	whole := span.Round(time.Millisecond)
	if whole < span {
		whole += time.Millisecond
	}
	return strconv.FormatInt(whole.Milliseconds(), 10)
}
