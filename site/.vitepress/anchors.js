import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

// checkAnchors fails if a link of a built page has an anchor that its target does not have.
// The check of VitePress ends at the page.
export function checkAnchors({ outDir, site: { base } }) {
  const files = readdirSync(outDir, { recursive: true }).filter((file) => file.endsWith('.html'))
  const html = new Map(files.map((file) => ['/' + file, readFileSync(join(outDir, file), 'utf8')]))
  const missing = []
  for (const [file, text] of html) {
    for (const [, href] of text.matchAll(/href="([^"#:]*#[^"]+)"/g)) {
      const [path, anchor] = href.split('#')
      const address = path === '' ? file : '/' + path.slice(base.length)
      const target = html.get(address) ?? html.get(address.endsWith('/') ? address + 'index.html' : address + '.html')
      if (target && !target.includes(`id="${decodeURIComponent(anchor)}"`)) missing.push(`${file}: ${decodeURIComponent(href)}`)
    }
  }
  if (missing.length) throw new Error('links to headings that do not exist:\n' + missing.join('\n'))
}
