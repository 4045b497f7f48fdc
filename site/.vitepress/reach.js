import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import MiniSearch from 'minisearch'
import { pages } from './pages.js'
import { tokenize } from './search.js'

// The directories of the search indexes, and the options with which the page searches.
const indexes = { en: '@localSearchIndexroot.', zh: '@localSearchIndexzh.' }
const options = { fuzzy: 0.2, prefix: true, boost: { title: 4, text: 2, titles: 1 } }
const shown = 16 // results

// checkReach fails if a built page cannot be reached: from the sidebar and the menu of languages of
// another page, or by a search for its title.
export async function checkReach({ outDir }) {
  const missing = []
  for (const language of Object.keys(indexes)) {
    const of = pages.filter((page) => page.language === language)
    const search = await index(outDir, indexes[language])
    for (const page of of) {
      const html = readFileSync(join(outDir, page.copy.replace(/md$/, 'html')), 'utf8')
      const twin = pages.find((other) => other.name === page.name && other.language !== language)
      for (const other of [twin, ...of]) {
        if (!html.includes(`href="${other.address}"`)) missing.push(`${page.address}: no link to ${other.address}`)
      }
      const found = search(page.title).slice(0, shown).map((result) => result.id.split('#')[0])
      if (!found.includes(page.address)) missing.push(`${page.address}: not found by ${page.title}, but ${[...new Set(found)].join(' ')}`)
    }
  }
  if (missing.length) throw new Error('pages that cannot be reached:\n' + missing.join('\n'))
}

async function index(outDir, prefix) {
  const directory = join(outDir, 'assets/chunks')
  const file = readdirSync(directory).find((name) => name.startsWith(prefix))
  const { default: json } = await import(pathToFileURL(join(directory, file)))
  const search = MiniSearch.loadJSON(json, { fields: ['title', 'titles', 'text'], storeFields: ['title', 'titles'], tokenize, searchOptions: options })
  return (text) => search.search(text)
}
