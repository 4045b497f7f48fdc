package gin
