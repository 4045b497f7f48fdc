import { copyFileSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url)) // of the repository
const directory = fileURLToPath(new URL('../.pages', import.meta.url)) // of the copied pages
const languages = [
  { name: 'en', suffix: '.md', prefix: '' },
  { name: 'zh', suffix: '.zh-CN.md', prefix: 'zh/' },
]

// sidebar.json lists the pages by task: files of the repository without .md or .zh-CN.md.
const groups = JSON.parse(readFileSync(new URL('../sidebar.json', import.meta.url), 'utf8'))

// pages has the file of each page in the repository, its copy, and its address and title.
export const pages = groups.flatMap((group) => group.pages).flatMap((name) => {
  const target = name === 'README' ? 'index' : name.replace(/^docs\//, '').replace(/\/README$/, '/index')
  return languages.map(({ name: language, suffix, prefix }) => {
    const file = name + suffix
    const text = readFileSync(root + file, 'utf8')
    return {
      name, language, file, text,
      copy: `${prefix}${target}.md`,
      address: ('/' + prefix + target).replace(/\/index$/, '/'),
      title: text.match(/^# (.*)$/m)[1].replaceAll('`', ''),
    }
  })
})

const byFile = new Map(pages.map((page) => [page.file, page]))
const byCopy = new Map(pages.map((page) => [join(directory, page.copy), page]))

export const pageOfFile = (file) => byFile.get(file)
export const pageOfCopy = (path) => byCopy.get(path)

// copyPages copies the pages and their images to the source directory of VitePress, with the
// Chinese ones in zh: its search takes the language of a page from the directory of its file.
export function copyPages() {
  rmSync(directory, { recursive: true, force: true })
  for (const page of pages) {
    copy(page.file, page.copy)
    for (const [, image] of page.text.matchAll(/!\[[^\]]*\]\(([^):]+)\)/g)) {
      copy(posix.join(posix.dirname(page.file), image), posix.join(posix.dirname(page.copy), image))
    }
  }
}

function copy(from, to) {
  mkdirSync(dirname(join(directory, to)), { recursive: true })
  copyFileSync(root + from, join(directory, to))
}

export function menu(names, language) {
  return names.map((name) => {
    const { title, address } = pages.find((page) => page.name === name && page.language === language)
    return { text: title, link: address }
  })
}

export function sidebar(language) {
  return groups.map((group) => ({ text: group[language], items: menu(group.pages, language) }))
}
