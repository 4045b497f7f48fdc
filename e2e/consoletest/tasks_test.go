package consoletest_test

import (
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/browsertest"
	"github.com/floodweir/weir/e2e/consoletest"
)

// A step of a task is what a user does with the keyboard by the words on the page.
type step struct {
	do     string // tab: to an element; press: the same, and Enter; type: over the text; key; see
	en, zh string // the words; a key or a text that is typed is that of en
}

// testTasks does five tasks from the start page in both languages, with the keyboard alone. It finds
// everything by the words that the page shows.
func (s *suite) testTasks(t *testing.T) {
	find := []step{
		{"press", "Key", "Key 查询"},
		{"tab", "Key, as in the policy", "Key：按策略定义"},
		{"type", "203.0.113.9", ""},
		{"key", "Enter", ""},
		{"see", "Denied by login (5/m). Next request succeeds in", "被 login 拒绝（5/m）。"},
	}
	for _, task := range []struct {
		name  string
		steps []step
	}{
		{"find why a client is denied, and raise its limit for an hour", append(find[:len(find):len(find)],
			step{"press", "Raise limit", "临时提额"},
			step{"tab", "Limits", "限额"},
			step{"type", "30/m", ""},
			step{"tab", "Minutes", "分钟"},
			step{"type", "60", ""},
			step{"tab", "Reason", "操作原因"},
			step{"type", "ticket 812", ""},
			step{"key", "Enter", ""},
			step{"see", "raised limit 30/m", "临时提额 30/m"},
		)},
		{"choose a limit for a route", []step{
			{"press", "login", "login"},
			{"tab", "Threshold", "阈值"},
			{"key", "ArrowRight", ""},
			{"see", "Would deny 83–91 keys", "预计拒绝 83–91 个 Key"},
			{"press", "Use in draft", "用于草稿"},
			{"see", "limits: [6/m]", "limits: [6/m]"},
			{"press", "Review", "检查变更"},
			{"type", "from the traffic", ""},
			{"key", "Enter", ""},
			{"see", "v43: ", "v43："},
		}},
		{"roll back a change", []step{
			{"press", "v42", "v42"},
			{"press", "Roll back", "回滚"},
			{"tab", "Reason", "操作原因"},
			{"type", "too strict", ""},
			{"key", "Enter", ""},
			{"see", "Rolled back to v41, published as v43.", "已回滚到 v41，发布为 v43。"},
		}},
		{"find the degraded node", []step{
			{"see", "decides locally", "decides locally"},
			{"see", "local", "本地限流"},
		}},
	} {
		for _, lang := range []string{"en", "zh-CN"} {
			t.Run(task.name+" "+lang, func(t *testing.T) {
				_, p := s.open(t, "overview", consoletest.Options{StaleNode: true}, browsertest.Device{Lang: lang})
				p.Await(`document.querySelector(".tools .live.live")`)
				begin := time.Now()
				for _, one := range task.steps {
					words := one.en
					if lang != "en" && one.zh != "" {
						words = one.zh
					}
					switch one.do {
					case "tab":
						p.TabToWords(words)
					case "press":
						p.TabToWords(words)
						p.Key("Enter")
					case "type":
						p.Await(`document.activeElement.matches("input")`)
						p.Do(`document.activeElement.select()`) // as Tab does
						p.Type(words)
					case "key":
						p.Key(words)
					case "see":
						p.WaitText("main", words)
					}
				}
				t.Logf("%d steps, %.1f s", len(task.steps), time.Since(begin).Seconds())
			})
		}
	}
}
