import { existsSync, statSync } from 'node:fs'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { pageOfCopy, pageOfFile } from './pages.js'

const root = fileURLToPath(new URL('../..', import.meta.url))

// githubSlug returns the anchor that GitHub gives to a heading, so that links work in both places.
export function githubSlug(heading) {
  return heading.trim().toLowerCase().replace(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, '').replaceAll(' ', '-')
}

// repositoryLinks changes the links between files of the repository: those to pages become
// addresses of the site, and those to other files become addresses of the repository. It fails
// on files that do not exist. It removes the link to the page in the other language, which the
// menu of the site has.
export function repositoryLinks(md, repository) {
  md.core.ruler.push('repository_links', (state) => {
    const page = pageOfCopy(state.env.realPath ?? state.env.path)
    if (!page) return // a text of the theme
    removeLanguageLine(state.tokens)
    for (const block of state.tokens) {
      for (const token of block.children ?? []) {
        if (token.type === 'link_open') token.attrSet('href', address(token.attrGet('href'), page.file, repository))
      }
    }
  })
}

// address returns the address of a link in a file of the repository.
function address(href, from, repository) {
  if (/^([a-z]+:|#|\/)/.test(href)) return href
  const [path, anchor] = decodeURI(href).split('#')
  const file = posix.join(posix.dirname(from), path)
  const hash = anchor ? '#' + anchor : ''
  const page = pageOfFile(file)
  if (page) return page.address + hash
  if (!existsSync(root + file)) throw new Error(`${from}: link to ${href}: no such file`)
  const kind = statSync(root + file).isDirectory() ? 'tree' : 'blob'
  return `${repository}/${kind}/main/${file}${hash}`
}

function removeLanguageLine(tokens) {
  const line = tokens.findIndex((token) => token.type === 'inline' && /^(English · \[|\[English\]\()/.test(token.content))
  if (line > 0) tokens.splice(line - 1, 3)
}
