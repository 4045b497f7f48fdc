// A series of counts per second, for at most ten minutes. Seconds without data are null.
export const columns = ["admitted", "denied", "delayed", "shadow", "overloaded", "candidate", "p50", "p99"];
const kept = 600;

export class Series {
  constructor() {
    this.t = [];
    this.values = Object.fromEntries(columns.map((c) => [c, []]));
  }

  last() {
    return this.t.at(-1);
  }

  // load adds the rows of /v1/series. Events may have arrived before them.
  load({ from, step = 1, columns: names, rows }) {
    const all = new Map(this.t.map((t, i) => [t, Object.fromEntries(columns.map((c) => [c, this.values[c][i]]))]));
    rows.forEach((row, i) => {
      if (row) all.set(from + i * step, Object.fromEntries(names.map((name, j) => [name, row[j]])));
    });
    this.t = [];
    for (const c of columns) this.values[c] = [];
    for (const t of [...all.keys()].sort((a, b) => a - b)) this.push(t, all.get(t));
  }

  // push appends one second, after nulls for seconds that are missing.
  push(t, row) {
    const last = this.last();
    if (last !== undefined && t <= last) return;
    const from = last === undefined ? t : Math.max(last + 1, t - kept);
    for (let s = from; s < t; s++) this.append(s, null);
    this.append(t, row);
    if (this.t.length > kept + 60) {
      this.t = this.t.slice(-kept);
      for (const c of columns) this.values[c] = this.values[c].slice(-kept);
    }
  }

  append(t, row) {
    this.t.push(t);
    for (const c of columns) this.values[c].push(row?.[c] ?? null);
  }

  // window returns times and columns of the last n seconds, for uPlot.
  window(n, names) {
    return [this.t.slice(-n), ...names.map((c) => this.values[c].slice(-n))];
  }

  // table returns means over steps of the last n seconds, the latest first.
  table(n, names, steps) {
    const rows = [];
    for (let end = this.t.length; end > Math.max(0, this.t.length - n) && rows.length < 60; end -= steps) {
      const begin = Math.max(0, end - steps);
      rows.push([this.t[begin], ...names.map((c) => mean(this.values[c].slice(begin, end)))]);
    }
    return rows;
  }
}

function mean(values) {
  const known = values.filter((v) => v != null);
  return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
}
