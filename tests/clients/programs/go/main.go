// SPDX-License-Identifier: Apache-2.0

// The official Go SDK.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type call struct {
	ID        string         `json:"id"`
	Tool      string         `json:"tool"`
	Arguments map[string]any `json:"arguments"`
	Progress  bool           `json:"progress"`
	Cancel    bool           `json:"cancel"`
}

type job struct {
	Server struct {
		Command []string `json:"command"`
		URL     string   `json:"url"`
		Token   string   `json:"token"`
	} `json:"server"`
	Calls []call `json:"calls"`
}

type report struct {
	Version  string                    `json:"version"`
	Tools    []string                  `json:"tools"`
	Outcomes map[string]map[string]any `json:"outcomes"`
	Asked    []string                  `json:"asked"`
}

// Adds the token to each request.
type withToken string

func (token withToken) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(request)
}

// More than a job has: handlers never wait for the program.
const maxMessages = 100

type program struct {
	asked    chan string
	progress chan *mcp.ProgressNotificationParams
	session  *mcp.ClientSession
	named    map[string]any
}

func (p *program) connect(ctx context.Context, given job) error {
	client := mcp.NewClient(
		&mcp.Implementation{Name: "ipybox-test", Version: "1"},
		&mcp.ClientOptions{
			ElicitationHandler: func(
				_ context.Context, request *mcp.ElicitRequest,
			) (*mcp.ElicitResult, error) {
				p.asked <- request.Params.Message
				content := map[string]any{"decision": "allow"}
				return &mcp.ElicitResult{Action: "accept", Content: content}, nil
			},
			ProgressNotificationHandler: func(
				_ context.Context, request *mcp.ProgressNotificationClientRequest,
			) {
				p.progress <- request.Params
			},
		})
	var transport mcp.Transport
	if server := given.Server; server.URL != "" {
		transport = &mcp.StreamableClientTransport{
			Endpoint:   server.URL,
			HTTPClient: &http.Client{Transport: withToken(server.Token)},
		}
	} else {
		command := exec.Command(server.Command[0], server.Command[1:]...)
		command.Stderr = os.Stderr
		// A server that is slow to end on a busy machine gets no signal.
		transport = &mcp.CommandTransport{Command: command, TerminateDuration: time.Minute}
	}
	var err error
	p.session, err = client.Connect(ctx, transport, nil)
	return err
}

var sessionID = regexp.MustCompile(`\[session_id: (\w+)\.`)

func (p *program) outcome(ctx context.Context, each call) (map[string]any, error) {
	arguments := map[string]any{}
	for _, source := range []map[string]any{p.named, each.Arguments} {
		for name, value := range source {
			arguments[name] = value
		}
	}
	params := &mcp.CallToolParams{Name: each.Tool, Arguments: arguments}
	if each.Progress || each.Cancel {
		params.SetProgressToken(each.ID)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var result *mcp.CallToolResult
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		result, err = p.session.CallTool(ctx, params)
	}()
	messages := []string{}
	take := func(progress *mcp.ProgressNotificationParams) {
		if progress.ProgressToken == each.ID {
			messages = append(messages, progress.Message)
			if each.Cancel {
				cancel()
			}
		}
	}
	for running := true; running; {
		select {
		case progress := <-p.progress:
			take(progress)
		case <-done:
			running = false
		}
	}
	for len(p.progress) > 0 {
		take(<-p.progress)
	}
	if each.Cancel && errors.Is(err, context.Canceled) {
		return map[string]any{"cancelled": true}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", each.ID, err)
	}
	return p.content(result, messages)
}

func (p *program) content(
	result *mcp.CallToolResult, messages []string,
) (map[string]any, error) {
	var text strings.Builder
	images := 0
	for _, block := range result.Content {
		switch block := block.(type) {
		case *mcp.TextContent:
			text.WriteString(block.Text)
		case *mcp.ImageContent:
			if !bytes.HasPrefix(block.Data, []byte("\x89PNG")) {
				return nil, errors.New("not a PNG file")
			}
			images++
		}
	}
	// Over HTTP it speaks revision 2026-07-28, in which a connection has no session.
	if found := sessionID.FindStringSubmatch(text.String()); found != nil {
		p.named = map[string]any{"session_id": found[1]}
	}
	return map[string]any{
		"text": text.String(), "images": images, "error": result.IsError, "progress": messages,
	}, nil
}

func installed() (string, error) {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/modelcontextprotocol/go-sdk" {
				return strings.TrimPrefix(module.Version, "v"), nil
			}
		}
	}
	return "", errors.New("the program does not have the version of the SDK")
}

func run() error {
	var given job
	if err := json.Unmarshal([]byte(os.Args[1]), &given); err != nil {
		return err
	}
	version, err := installed()
	if err != nil {
		return err
	}
	ctx := context.Background()
	p := &program{
		asked:    make(chan string, maxMessages),
		progress: make(chan *mcp.ProgressNotificationParams, maxMessages),
	}
	if err := p.connect(ctx, given); err != nil {
		return err
	}
	listed, err := p.session.ListTools(ctx, nil)
	if err != nil {
		return err
	}
	seen := report{Version: version, Outcomes: map[string]map[string]any{}, Asked: []string{}}
	for _, tool := range listed.Tools {
		seen.Tools = append(seen.Tools, tool.Name)
	}
	for _, each := range given.Calls {
		if seen.Outcomes[each.ID], err = p.outcome(ctx, each); err != nil {
			return err
		}
	}
	if err := p.session.Close(); err != nil {
		return err
	}
	for len(p.asked) > 0 {
		seen.Asked = append(seen.Asked, <-p.asked)
	}
	return json.NewEncoder(os.Stdout).Encode(seen)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
