" Markdown as an agent writes it. A conversation grows for hours while it is on the screen, so this looks at no more than
" what is shown; code in fences gets its own colours from lua/dsh/code.lua, once.

if exists('b:current_syntax')
  finish
endif

syntax match dshHeading '^#\{1,6}\s.*$' contains=dshCode,dshHeadingMark
syntax match dshHeadingMark '^#\{1,6}\s' contained conceal
syntax match dshListMark '^\s*\%([-*+]\|\d\+[.)]\)\ze\s'
syntax match dshQuote '^>.*$'
syntax region dshCode matchgroup=dshMark start='`' end='`' oneline concealends
syntax region dshBold matchgroup=dshMark start='\*\*\S\@=' end='\S\@<=\*\*' oneline concealends contains=dshCode
syntax region dshItalic matchgroup=dshMark start='\w\@<!\*[[:space:]*]\@!' end='[[:space:]*]\@<!\*\w\@!' oneline concealends
syntax region dshLinkText matchgroup=dshMark start='\[\ze[^\]]*\](' end='\]\ze(' oneline concealends nextgroup=dshLinkTarget
syntax region dshLinkTarget matchgroup=dshMark start='(' end=')' oneline contained conceal
syntax region dshFence matchgroup=dshMark start='^\s*\z(`\{3,}\).*$' end='^\s*\z1\s*$' keepend
" What begins with a mark of ours is no Markdown: taken for that, a part of a command or of a name would be hidden.
syntax match dshCard '^\s*[○●✓✗?–↶±·▸▾]\s.*$'

syntax sync match dshFenceSync grouphere NONE '^$'
syntax sync minlines=200

highlight default link dshHeading Title
highlight default link dshHeadingMark Comment
highlight default link dshListMark Special
highlight default link dshQuote Comment
highlight default link dshCode String
highlight default link dshFence String
highlight default link dshLinkText Underlined
highlight default link dshLinkTarget Comment
highlight default link dshMark Comment
highlight default dshBold cterm=bold gui=bold
highlight default dshItalic cterm=italic gui=italic

let b:current_syntax = 'dsh'
