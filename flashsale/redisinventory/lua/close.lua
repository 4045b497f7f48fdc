-- Makes the state refuse everything but that its stream is read to its end.

if redis.call('HGET', STATE, 'epoch') == ARGV[1] then shut('asked') end
return {'ok', '0'}
