// tokenize splits a text into words for the search, and Chinese text into pairs of characters:
// it has no spaces. A query of one character finds pages by the prefix of a pair. The browser
// runs this function from its text, so it uses nothing outside of it.
export function tokenize(text) {
  const words = []
  for (const word of text.toLowerCase().match(/\p{Script=Han}+|[^\p{Script=Han}\s\p{P}\p{S}]+/gu) ?? []) {
    if (!/\p{Script=Han}/u.test(word) || word.length === 1) {
      words.push(word)
      continue
    }
    for (let i = 0; i + 1 < word.length; i++) words.push(word.slice(i, i + 2))
  }
  return words
}
