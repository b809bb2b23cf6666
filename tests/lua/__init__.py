"""Style of the Neovim client's Lua: luacheck and stylua."""
