package delayq

import (
	"encoding/json"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// document of the server, which says what its routes take and answer.
type openapi struct {
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]schema }
}

type operation struct {
	Parameters []struct{ Name, In string }
}

type schema struct {
	Properties map[string]any
	AllOf      []schema
	Ref        string `json:"$ref"`
	AnyOf      []schema
	Enum       []string
}

func (o openapi) fields(s schema) map[string]bool {
	found := map[string]bool{}
	if s.Ref != "" {
		s = o.Components.Schemas[s.Ref[strings.LastIndex(s.Ref, "/")+1:]]
	}
	for name := range s.Properties {
		found[name] = true
	}
	for _, part := range append(s.AllOf, s.AnyOf...) {
		for name := range o.fields(part) {
			found[name] = true
		}
	}
	return found
}

func (o openapi) query(path, method string) map[string]bool {
	found := map[string]bool{}
	for _, parameter := range o.Paths[path][method].Parameters {
		found[parameter.Name] = parameter.In == "query"
	}
	return found
}

// Whatever the client sends and reads is in the document of the server.
func TestTheClientFitsTheServersDocument(t *testing.T) {
	text, err := os.ReadFile("../../server/delayq-server/openapi.json")
	if err != nil {
		t.Skip("LEFT OUT: openapi.json is not beside the client")
	}
	var document openapi
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	for path, methods := range map[string]map[string][]string{
		"types/{task_type}/tasks":                 {"post": nil},
		"types/{task_type}/tasks/{id}":            {"put": nil, "get": nil, "delete": nil},
		"types/{task_type}/tasks/{id}/message":    {"put": nil},
		"types/{task_type}/tasks/{id}/reschedule": {"post": {"delay", "at"}},
		"types/{task_type}/tasks/{id}/run-now":    {"post": nil},
		"types/{task_type}/tasks/{id}/reply":      {"get": {"wait"}},
		"types/{task_type}/tasks/{id}/history":    {"get": nil},
		"types/{task_type}/tasks/{id}/done":       {"post": {"lock"}},
		"types/{task_type}/tasks/{id}/done-then":  {"post": {"lock"}},
		"types/{task_type}/tasks/{id}/fail":       {"post": {"lock", "retry_after", "max_attempts", "dead"}},
		"types/{task_type}/tasks/{id}/release":    {"post": {"lock", "after"}},
		"types/{task_type}/tasks/{id}/extend":     {"post": {"lock", "lock_for"}},
		"types/{task_type}/bulk":                  {"post": nil},
		"types/{types}/claim":                     {"post": {"limit", "wait", "lock_for"}},
		"batches/{id}":                            {"put": nil, "get": nil, "delete": nil},
		"recurring/{id}":                          {"put": nil, "delete": nil},
		"recurring/{id}/pause":                    {"post": nil},
		"recurring/{id}/resume":                   {"post": nil},
		"recurring":                               {"get": {"limit", "cursor"}},
	} {
		path = "/v1/{namespace}/" + path
		for method, parameters := range methods {
			if _, ok := document.Paths[path][method]; !ok {
				t.Errorf("there is no %s %s", method, path)
			}
			for _, name := range parameters {
				if !document.query(path, method)[name] {
					t.Errorf("%s %s has no parameter %s", method, path, name)
				}
			}
		}
	}
	all := NewJob("a", 1, ID("a"), After(1), At(time.Now()), OnConflict(Keep), Debounce(1, 1), Throttle(1), ExpiresAfter(1),
		ExpiresAt(time.Now()), Group("g"), Project("p"), AgainIfRunning(), Header("a", "b"))
	sent, err := all.request()
	if err != nil || sent.method != http.MethodPut {
		t.Fatal(sent, err)
	}
	for name := range sent.query {
		for path, method := range map[string]string{"": "post", "/{id}": "put"} {
			if !document.query("/v1/{namespace}/types/{task_type}/tasks"+path, method)[name] {
				t.Error("a create has no option", name)
			}
		}
	}
	written, err := lines([]Job{all, NewJob("a", []byte("raw"))}, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range written {
		for name := range line {
			if !document.fields(document.Components.Schemas["Line"])[name] {
				t.Error("a line has no field", name)
			}
		}
	}
	for name, read := range map[string]any{
		"Accepted": Receipt{}, "LineOutcome": Receipt{}, "TaskView": TaskInfo{}, "ClaimedView": Task{}, "Problem": Error{}, "RecurringView": RecurringInfo{},
		"BatchAccepted": BatchReceipt{}, "RecurringForm": map[string]any{"type": 1, "every": 1, "zone": 1, "json": 1, "message_base64": 1, "headers": 1, "group": 1, "paused": 1},
		"BatchForm": map[string]any{"tasks": 1, "then": 1, "wait_for_dead": 1}, "DoneForm": map[string]any{"then": 1, "reply": 1},
		"Extended": map[string]any{"outcome": 1}, "Changed": map[string]any{"due_at": 1}, "Claimed": map[string]any{"tasks": 1}, "RecurringList": map[string]any{"recurring": 1, "next": 1},
	} {
		own, known := document.Components.Schemas[name], map[string]bool{}
		if known = document.fields(own); len(known) == 0 {
			t.Error("there is no schema", name)
		}
		for _, field := range names(read) {
			if !known[field] {
				t.Errorf("%s has no field %s", name, field)
			}
		}
	}
	said := string(text)
	for _, value := range []string{
		string(Accepted), string(Replaced), string(AlreadyExists), string(RunsAgain), string(StateScheduled), string(StateRunning), string(StateDead),
		string(StateDone), string(StateCancelled), string(StateExpired), string(Reject), string(Keep), string(Replace), "cancel_requested",
	} {
		if !strings.Contains(said, "`"+value+"`") {
			t.Errorf("%s is no value of the document", value)
		}
	}
}

// names are those that the fields have in JSON.
func names(of any) (all []string) {
	if fields, ok := of.(map[string]any); ok {
		for name := range fields {
			all = append(all, name)
		}
		return all
	}
	for i := range reflect.TypeOf(of).NumField() {
		field := reflect.TypeOf(of).Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous:
			all = append(all, names(reflect.Zero(field.Type).Interface())...)
		case name == "":
			name = strings.ToLower(field.Name)
			fallthrough
		case name != "-" && field.IsExported():
			if field.IsExported() {
				all = append(all, name)
			}
		}
	}
	return all
}
