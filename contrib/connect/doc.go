package connect
