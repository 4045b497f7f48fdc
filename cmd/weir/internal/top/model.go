package top

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// keysEvery is the number of ticks between two requests of keys.
const keysEvery = 5

// A model is the state of the terminal.
type model struct {
	fetchKeys func(policy string) tea.Cmd

	overview *overview
	last     time.Time // of the last data
	err      error     // why the connection was lost; nil while connected
	paused   bool

	selected string // a policy
	moved    bool   // the user selected it; else it is the first
	top      int    // the first policy on the screen
	keys     *keyList
	keysErr  error
	open     string // the policy whose keys are shown; "": the table
	ticks    int

	width, height int
	began         time.Time
	sum           [6]float64 // since the start
}

type keysMsg struct {
	policy string
	keys   *keyList
	err    error
}

func newModel(o *overview, fetchKeys func(string) tea.Cmd) *model {
	m := &model{overview: o, fetchKeys: fetchKeys, last: time.Now(), began: time.Now(), width: 80, height: 24}
	o.sort()
	m.move(0)
	return m
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return nil }

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m, m.press(msg.String())
	case lostMsg:
		m.err = msg.err
	case overviewMsg:
		m.err = nil
		if !m.paused {
			m.overview, m.last = msg.overview, time.Now()
			m.overview.sort()
			m.move(0)
		}
	case tickMsg:
		return m, m.tick(tick(msg))
	case nodesMsg:
		if !m.paused {
			m.overview.setNodes(msg)
		}
	case versionMsg:
		m.overview.Version = msg.Version
	case keysMsg:
		if msg.policy == m.open {
			if m.keysErr = msg.err; msg.err == nil {
				m.keys = msg.keys
			}
		}
	}
	return m, nil
}

func (o *overview) setNodes(n nodesMsg) {
	o.Nodes, o.Programs, o.Problem, o.Live = n.Nodes, n.Programs, n.Problem, 0
	for _, one := range n.Nodes {
		if !one.Stale {
			o.Live++
		}
	}
}

// tick applies the counts of one second.
func (m *model) tick(t tick) tea.Cmd {
	m.err = nil
	for i, n := range t.All {
		m.sum[i] += n
	}
	if m.paused {
		return nil
	}
	m.overview.add(t)
	m.last = time.Now()
	m.move(0)
	if m.ticks++; m.open != "" && m.ticks%keysEvery == 0 {
		return m.fetchKeys(m.open)
	}
	return nil
}

// press handles a key.
func (m *model) press(key string) tea.Cmd {
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "space", " ":
		m.paused = !m.paused
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-m.rows())
	case "pgdown":
		m.move(m.rows())
	case "home", "g":
		m.move(-len(m.overview.Policies))
	case "end", "G":
		m.move(len(m.overview.Policies))
	case "enter":
		if m.open == "" && m.selected != "" {
			m.open, m.keys, m.keysErr = m.selected, nil, nil
			return m.fetchKeys(m.open)
		}
	case "esc", "backspace", "left", "h":
		m.open = ""
	}
	return nil
}

// move selects another policy, which stays selected by its name when the order changes.
func (m *model) move(by int) {
	all := m.overview.Policies
	at := 0
	for i, r := range all {
		if r.Name == m.selected {
			at = i
		}
	}
	if len(all) == 0 {
		m.selected = ""
		return
	}
	at = min(max(0, at+by), len(all)-1)
	if m.moved = m.moved || by != 0; !m.moved {
		at = 0
	}
	m.selected = all[at].Name
	m.top = min(max(m.top, at-m.rows()+1), at)
}

// rows returns the number of policies on the screen.
func (m *model) rows() int {
	return max(1, m.height-len(m.overview.summary(""))-len(m.nodeLines())-5)
}

// nodeLines returns the table of nodes, of at most a third of the screen.
func (m *model) nodeLines() []string {
	lines := m.overview.nodeLines()
	if most := max(2, m.height/3); len(lines) > most {
		hidden := len(lines) - most + 1
		lines = append(lines[:most-1], fmt.Sprintf("and %d more", hidden))
	}
	return lines
}

// status says how old the numbers are.
func (m *model) status() string {
	switch {
	case m.err != nil:
		return "Reconnecting, data from " + m.last.Format(time.TimeOnly)
	case m.paused:
		return "Paused, data from " + m.last.Format(time.TimeOnly)
	}
	return "Live"
}

// Attributes of text.
const (
	bold    = "\x1b[1m"
	reverse = "\x1b[7m"
	normal  = "\x1b[0m"
)

// View implements tea.Model.
func (m *model) View() tea.View {
	var lines []string
	summary := m.overview.summary(m.status())
	for i, line := range summary {
		if i != 1 {
			line = bold + line + normal
		}
		lines = append(lines, line)
	}
	lines = append(lines, "")
	help := "up/down select  Enter keys  Space pause  q quit"
	if m.open != "" {
		lines = append(lines, m.keyLines()...)
		help = "Esc back  Space pause  q quit"
	} else {
		lines = append(lines, m.tableLines()...)
	}
	lines = lines[:min(len(lines), max(1, m.height-1))]
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines, help)
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "…")
	}
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen = true
	v.WindowTitle = "weir top"
	return v
}

// tableLines returns the policies on the screen and the nodes.
func (m *model) tableLines() (lines []string) {
	trend := min(trendLength, max(10, m.width-75))
	all := m.overview.policyLines(trend)
	lines = append(lines, bold+all[0]+normal)
	for i := m.top; i < min(m.top+m.rows(), len(all)-1); i++ {
		line := all[i+1]
		if m.overview.Policies[i].Name == m.selected {
			line = reverse + line + strings.Repeat(" ", max(0, m.width-ansi.StringWidth(line))) + normal
		}
		lines = append(lines, line)
	}
	if len(all) == 1 {
		lines = append(lines, "no policies")
	}
	nodes := m.nodeLines()
	lines = append(lines, "", bold+nodes[0]+normal)
	return append(lines, nodes[1:]...)
}

// keyLines returns the keys of the open policy.
func (m *model) keyLines() []string {
	switch {
	case m.keysErr != nil:
		return []string{plain(m.open), "! " + plain(m.keysErr.Error())}
	case m.keys == nil:
		return []string{plain(m.open), "loading"}
	}
	return m.keys.lines()
}

// total returns what passed while the terminal was shown.
func (m *model) total() string {
	requests := m.sum[admitted] + m.sum[denied] + m.sum[shadow] + m.sum[overloaded]
	return fmt.Sprintf("watched %v: %s requests, %s denied (%s)",
		time.Since(m.began).Round(time.Second), number(requests), number(m.sum[denied]), percent(m.sum[denied], requests))
}
