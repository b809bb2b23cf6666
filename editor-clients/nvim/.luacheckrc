std = 'luajit'
globals = { 'vim' }
max_line_length = 118
ignore = { '212/_.*' } -- an argument that a signature asks for
