// A worker that reports after a time. Browsers slow the timers of hidden pages down to one a minute,
// but not those of workers.
onmessage = ({ data: { id, ms } }) => setTimeout(() => postMessage(id), ms);
