import { held } from "./receipt.js";

// unitsOf returns how many units the buyer holds.
export const unitsOf = (receipts) => receipts.filter(held).reduce((n, r) => n + (r.quantity ?? 1), 0);

// stageOf returns what a buyer can do now. It depends only on the server's responses and time.
export function stageOf(view, turn, receipts, now) {
  const starts = Date.parse(view.starts_at);
  const opens = view.queue === "shuffled" ? starts - view.lobby_ms : starts;
  const place = turn?.state ?? "none";
  if (view.phase === "ended" || now >= Date.parse(view.ends_at)) return "ended";
  if (view.phase === "sold_out") return "sold_out";
  if (place === "admitted" && turn.token && now < Date.parse(turn.until)) return "turn";
  if (place === "waiting") return now < starts ? "drawn" : "line";
  if (unitsOf(receipts) >= view.per_user) return "enough";
  if (view.phase === "paused") return "paused";
  if (now < opens) return "upcoming";
  if (now < starts) return "lobby";
  return view.phase === "all_taken" ? "all_taken" : "open";
}
