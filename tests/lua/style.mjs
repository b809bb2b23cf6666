// Formats Lua files, or with --check names those that are not formatted and exits with 1.
import { readFileSync, writeFileSync } from 'node:fs'
import { Config, IndentType, OutputVerification, QuoteStyle, SortRequiresConfig, formatCode } from '@johnnymorganz/stylua'

function style() {
  const config = Config.new()
  config.column_width = 118
  config.indent_type = IndentType.Spaces
  config.indent_width = 2
  config.quote_style = QuoteStyle.AutoPreferSingle
  config.sort_requires = SortRequiresConfig.new()
  return config
}

const check = process.argv.includes('--check')
const files = process.argv.slice(2).filter((argument) => !argument.startsWith('--'))
let wrong = 0
for (const file of files) {
  const text = readFileSync(file, 'utf8')
  let formatted
  try {
    formatted = formatCode(text, style(), undefined, OutputVerification.Full)
  } catch (error) {
    console.error(`${file}: ${error}`)
    process.exitCode = 1
    continue
  }
  if (formatted !== text) {
    wrong += 1
    if (check) {
      console.log(`would format ${file}`)
    } else {
      writeFileSync(file, formatted)
    }
  }
}
console.log(`${files.length} files, ${wrong} ${check ? 'to format' : 'formatted'}`)
if (check && wrong > 0) {
  process.exitCode = 1
}
