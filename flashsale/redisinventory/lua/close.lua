-- Closes the state: it refuses everything except reading its stream.

if redis.call('HGET', STATE, 'epoch') == ARGV[1] then shut('asked') end
return {'ok', '0'}
