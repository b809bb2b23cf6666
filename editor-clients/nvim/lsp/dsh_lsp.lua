return require('dsh.client').lsp_config()
