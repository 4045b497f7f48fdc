import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'
import { checkAnchors } from './anchors.js'
import { githubSlug, repositoryLinks } from './links.js'
import { copyPages, menu, sidebar } from './pages.js'
import { checkReach } from './reach.js'
import { tokenize } from './search.js'

const repository = 'https://github.com/floodweir/weir'
const base = process.env.SITE_BASE ?? '/'

const chinese = {
  outline: { label: '本页目录', level: [2, 3] },
  docFooter: { prev: '上一页', next: '下一页' },
  returnToTopLabel: '回到顶部',
  sidebarMenuLabel: '目录',
  darkModeSwitchLabel: '外观',
  lightModeSwitchTitle: '切换到浅色',
  darkModeSwitchTitle: '切换到深色',
  langMenuLabel: '切换语言',
  skipToContentLabel: '跳到正文',
  notFound: { title: '没有这个页面', quote: '链接可能已经变更。', linkText: '回到首页', linkLabel: '回到首页' },
}

const chineseSearch = {
  button: { buttonText: '搜索', buttonAriaLabel: '搜索' },
  modal: {
    displayDetails: '显示详情',
    resetButtonTitle: '清除',
    backButtonTitle: '关闭',
    noResultsText: '没有结果：',
    footer: { selectText: '打开', navigateText: '移动', closeText: '关闭' },
  },
}

const top = ['docs/quick-start', 'docs/coming-from/README', 'docs/guarantees', 'docs/benchmarks']

copyPages()

export default defineConfig({
  title: 'Weir',
  description: 'A rate limiter for Go: a library and a server',
  base,
  srcDir: '.pages',
  cleanUrls: true,
  ignoreDeadLinks: false,
  buildEnd: (config) => { checkAnchors(config); return checkReach(config) },
  head: [['link', { rel: 'icon', type: 'image/svg+xml', href: base + 'logo.svg' }]],
  vite: {
    publicDir: fileURLToPath(new URL('../public', import.meta.url)),
    build: { chunkSizeWarningLimit: 3000 }, // the search index
  },
  markdown: {
    anchor: { slugify: githubSlug },
    config: (md) => md.use(repositoryLinks, repository),
  },
  locales: {
    root: { label: 'English', lang: 'en', themeConfig: { nav: menu(top, 'en'), sidebar: sidebar('en') } },
    zh: { label: '简体中文', lang: 'zh-CN', description: 'Go 限流器：一个库和一个服务', themeConfig: { ...chinese, nav: menu(top, 'zh'), sidebar: { '/zh/': sidebar('zh') } } },
  },
  themeConfig: {
    logo: '/logo.svg',
    outline: { level: [2, 3] },
    socialLinks: [{ icon: 'github', link: repository }],
    search: {
      provider: 'local',
      options: {
        miniSearch: { options: { tokenize } },
        locales: { zh: { translations: chineseSearch } },
      },
    },
  },
})
