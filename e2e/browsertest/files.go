package browsertest

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/target"
)

// Download clicks a link that downloads a file, and returns the file's content.
func (p *Page) Download(selector, name string) string {
	p.t.Helper()
	dir := p.t.TempDir()
	here := call(p, target.GetTargetInfo, target.GetTargetInfoParams{}).TargetInfo
	call(p, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
		Behavior: browser.SetDownloadBehaviorBehaviorAllow, BrowserContextID: here.BrowserContextID, DownloadPath: dir})
	p.Click(selector)
	deadline := time.Now().Add(stepTimeout)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range tick.C { // an empty file has the name until the download is complete
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil && len(text) > 0 {
			return string(text)
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s: %s downloads no %s within %s", p.name, selector, name, stepTimeout)
		}
	}
	return ""
}

// Choose chooses a file in a file input.
func (p *Page) Choose(selector, file, kind string) {
	p.t.Helper()
	content, err := os.ReadFile(file)
	p.must(err)
	p.Await(fmt.Sprintf(`(() => {
		const e = document.querySelector(%s);
		if (!e?.checkVisibility()) return false;
		const files = new DataTransfer();
		files.items.add(new File([Uint8Array.from(atob(%s), (c) => c.charCodeAt(0))], %s, { type: %s }));
		e.files = files.files;
		e.dispatchEvent(new Event("change", { bubbles: true }));
		return true;
	})()`, quote(selector), quote(base64.StdEncoding.EncodeToString(content)), quote(filepath.Base(file)), quote(kind)))
}
