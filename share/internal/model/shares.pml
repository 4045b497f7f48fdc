/*
 * The protocol of package share: holders and a ledger, with one row. `make model` visits all states.
 *
 * A limit is divided among N holders. Tokens do not refill: TestLemma of package parts has the
 * arithmetic of time. Here the question is whether a token, or a part of the limit, can be in two
 * places, whatever the order of messages and clocks.
 *
 * A row is read, and written by compare-and-swap. Messages are lost, late, or arrive twice. A write is
 * fresh until the row is written; then it has no effect. So versions need no numbers, and the effect of
 * a fresh write can be computed when it arrives. To read is one step: a late reply is a slow holder.
 * At most one of several late writes has an effect, so the network keeps one of them.
 *
 * Time is a number of ticks. A holder uses a lease for USABLE ticks of its clock. Other processes watch an
 * unchanged row for LEASE ticks of theirs. Clocks are wrong by DRIFT ticks at most, so a holder may use a
 * share for HOLD ticks, and others may wait for only WATCH. The first process that reads a write
 * watches for all: a process that watches for longer is slower.
 *
 * A holder that dies is one without further steps. Bit i of LIMITS is set if holder i has the second
 * limit, of W1 tokens. Its requests put that in force, and those of others the first one, of W0.
 *
 * With TOKENS, a part has a level too: tokens that are left. A PLANT_… is an error that an assertion
 * finds: see model_test.go.
 */
#ifndef N
#define N 3
#endif
#ifndef TOKENS
#define TOKENS 0
#endif
#ifndef W0
#define W0 2
#endif
#ifndef W1
#define W1 1
#endif
#ifndef LIMITS
#define LIMITS 0
#endif
#define ASKS (TOKENS || LIMITS) /* requests, beside turns of the share */
#define LIMIT(i) ((LIMITS >> (i)) & 1)
#define WHOLE(l) ((l) -> W1 : W0)

#ifndef USABLE
#define USABLE 0
#endif
#define DRIFT  1
#define LEASE  (USABLE + 2 * DRIFT)
#ifdef PLANT_USED_AFTER_ITS_END
#define HOLD (USABLE + DRIFT + 1)
#else
#define HOLD (USABLE + DRIFT)
#endif
#ifdef PLANT_TAKEN_BACK_EARLY
#define WATCH (LEASE - DRIFT - 1)
#else
#define WATCH (LEASE - DRIFT)
#endif

/* The row. The remainder is rest, of which missing tokens are used. A part of 0 is no share. */
bit in_force;
short rest = W0, missing;
byte part[N];
bit old[N]; /* the part is of the former limit */

/* Holders. */
byte own[N], level[N]; /* the share */
byte lease[N];         /* ticks for which it is used */
byte pending[N];       /* the same, if the write in flight is effective */
byte stage[N];
#define IDLE  0
#define BEGUN 1 /* what it gives back is removed from the share */
#define SENT  2
byte give[N], give_level[N], hand[N];

/* The ticks until a share is taken back. */
byte watch[N];
#define UNKNOWN 0 /* no process has read the last write of the holder */
#define EXPIRED 1

/* Writes: of holder i in slot i, and a late one in slot N. */
byte state[N + 1];
#define NONE  0
#define FRESH 1
#define DONE  2
byte new_part[N + 1], get[N + 1], get_level[N + 1], back[N + 1], reclaim[N + 1];
bit take[N + 1], replace[N + 1];
byte writer; /* of the late write */

short admitted;

#define live(i) (lease[i] > 0 && own[i] > 0)

/* Variables of a step. */
byte k, want;
short r, m, sum, tokens, n;
bit former;

inline least(x, y, z) {
	if
	:: (y) < (z) -> x = (y)
	:: else -> x = (z)
	fi
}

/* put adds a part of which so many tokens are left to the remainder r, m. */
inline put(p, left) {
	m = m + (p) - (left);
	r = r + (p);
#ifdef PLANT_REMAINDER_FORGETS
	if
	:: r <= 0 -> m = 0
	:: r > 0 && r <= p -> m = r /* it was empty */
	:: else
	fi
#endif
}

/* open computes the remainder r, m by which the write in slot s decides. */
inline open(s, i) {
	r = rest; m = missing;
	if
	:: replace[s] ->
		r = WHOLE(LIMIT(i)); k = 0;
		do
		:: k < N -> r = r - part[k]; k++
		:: else -> break
		od;
#ifdef PLANT_REMAINDER_FORGETS
		if
		:: r <= 0 -> m = 0
		:: else
		fi
#endif
	:: else
	fi;
	k = 0;
	do
	:: k < N ->
		if
		:: reclaim[s] & (1 << k) ->
#ifdef PLANT_TAKEN_BACK_FULL
			put(part[k], part[k])
#else
			put(part[k], 0)
#endif
		:: else
		fi;
		k++
	:: else -> break
	od;
	n = part[i] - (new_part[s] - get[s]);
	if
	:: n != 0 -> put(n, back[s])
	:: else
	fi
}

inline clear(s) {
	state[s] = NONE; new_part[s] = 0; get[s] = 0; get_level[s] = 0; back[s] = 0; take[s] = 0; reclaim[s] = 0; replace[s] = 0
}

/* begin removes from the share what the holder gives back, g, and the token h of a request. */
inline begin(i, g, filled, h) {
	give[i] = g;
#ifndef PLANT_GIVEN_BACK_LATE
	own[i] = own[i] - g;
#endif
	if
	:: filled -> least(give_level[i], level[i], g)
	:: else
	fi;
	level[i] = level[i] - give_level[i];
	least(n, level[i], own[i]);
	level[i] = n - h; own[i] = own[i] - h; hand[i] = h;
	stage[i] = BEGUN
}

/* abort ends an exchange that sent nothing. */
inline abort(i) {
#ifndef PLANT_GIVEN_BACK_LATE
	own[i] = own[i] + give[i];
#endif
	level[i] = level[i] + give_level[i];
	failed(i)
}

/* failed ends an exchange without a result. */
inline failed(i) {
	own[i] = own[i] + hand[i]; level[i] = level[i] + hand[i];
	end(i)
}

inline end(i) {
	clear(i);
	give[i] = 0; give_level[i] = 0; hand[i] = 0; pending[i] = 0; stage[i] = IDLE
}

/* send reads the row and sends a write: of a request, which takes a token t if there is one, or of a turn. The
 * holder gets g of the limit at most. */
inline send(i, asks, t, g) {
	replace[i] = asks && in_force != LIMIT(i);
	former = replace[i];
	k = 0;
	do
	:: k < N ->
		if
		:: k == i || part[k] == 0
		:: else ->
			if
			:: watch[k] == UNKNOWN -> watch[k] = WATCH + 1; former = former || old[k] || replace[i]
			:: watch[k] == EXPIRED -> reclaim[i] = reclaim[i] | (1 << k)
			:: else -> former = former || old[k]
			fi
		fi;
		k++
	:: else -> break
	od;
	if
	:: part[i] == 0 || old[i] || in_force != LIMIT(i) -> /* another process has the share, or the limit has changed */
#ifndef PLANT_KEPT_WITHOUT_ROW
		give_level[i] = (part[i] > 0 -> give_level[i] + level[i] + hand[i] : 0);
		own[i] = 0; level[i] = 0; lease[i] = 0; hand[i] = 0
#endif
	:: else
	fi;
	new_part[i] = own[i] + hand[i];
#ifdef PLANT_GIVEN_BACK_LATE
	new_part[i] = new_part[i] - give[i];
#endif
	back[i] = give_level[i];
	open(i, i);
	take[i] = TOKENS && t && r > 0 && m < r;
	m = m + take[i];
	if
	:: !former && r > 0 && m <= r && in_force == LIMIT(i) ->
		least(want, r, g); get[i] = want;
		least(want, r - m, get[i]); get_level[i] = want * TOKENS
	:: else
	fi;
	new_part[i] = new_part[i] + get[i];
	state[i] = FRESH; pending[i] = HOLD; stage[i] = SENT;
#if N > 2 && !TOKENS && !defined(PLANT_GIVEN_BACK_LATE)
	give[i] = 0; /* fewer states: it is lost if the exchange fails */
#endif
#ifdef PLANT_RECIPIENT_FIRST
	own[i] = own[i] + get[i]; level[i] = level[i] + get_level[i]; lease[i] = HOLD
#endif
}

/* write is the effect of the write in slot s of holder i. */
inline write(s, i) {
	open(s, i);
	rest = r - get[s]; missing = TOKENS * (m + take[s] - (get[s] - get_level[s]));
	admitted = admitted + take[s];
	k = 0;
	do
	:: k < N ->
		if
		:: k != i && (reclaim[s] & (1 << k)) -> part[k] = 0; watch[k] = UNKNOWN
		:: else
		fi;
		old[k] = (old[k] || replace[s]) && part[k] > 0 && k != i;
		k++
	:: else -> break
	od;
	if
	:: replace[s] -> in_force = LIMIT(i)
	:: else
	fi;
	part[i] = new_part[s];
#ifndef PLANT_WATCHED_BY_ITS_HOLDER
	watch[i] = UNKNOWN;
#endif
	state[s] = DONE;
#ifndef PLANT_WRITTEN_WITHOUT_VERSION
	/* Other writes were computed from the former row. Their holders read it again. */
	k = 0;
	do
	:: k <= N ->
		if
		:: state[k] == FRESH ->
			clear(k);
			if
			:: k < N -> stage[k] = BEGUN; pending[k] = 0
			:: else -> writer = 0
			fi
		:: else
		fi;
		k++
	:: else -> break
	od;
#endif
	if
	:: take[s] -> /* beside what the holders may still admit */
		tokens = admitted; k = 0;
		do
		:: k < N -> tokens = tokens + (live(k) -> level[k] : 0); k++
		:: else -> break
		od;
		assert(tokens <= WHOLE(in_force))
	:: else
	fi;
	if
	:: s == N -> clear(N); writer = 0
	:: else
	fi
}

/* reply ends an exchange whose write was effective. A request whose tokens of the share were not enough
 * is denied. */
inline reply(i, denied) {
#ifndef PLANT_RECIPIENT_FIRST
	own[i] = own[i] + get[i]; level[i] = level[i] + get_level[i];
#endif
#ifdef PLANT_GIVEN_BACK_LATE
	own[i] = own[i] - give[i];
#endif
	own[i] = own[i] + hand[i];
	if
	:: denied -> level[i] = level[i] + hand[i]
	:: else -> admitted = admitted + hand[i]
	fi;
	if
	:: new_part[i] > 0 ->
#ifdef PLANT_LEASE_FROM_REPLY
		lease[i] = HOLD
#else
		lease[i] = pending[i]
#endif
	:: else
	fi;
	end(i)
}

/* lose ends an exchange without a reply. If its write is late, it may be effective after that. */
inline lose(i, late) {
	if
	:: late ->
		state[N] = FRESH; writer = i; new_part[N] = new_part[i]; get[N] = get[i]; get_level[N] = get_level[i];
		back[N] = back[i]; take[N] = take[i]; reclaim[N] = reclaim[i]; replace[N] = replace[i]
	:: else
	fi;
	failed(i)
}

inline tick() {
	k = 0;
	do
	:: k < N ->
		lease[k] = lease[k] - (lease[k] > 0);
		pending[k] = pending[k] - (pending[k] > 0);
		watch[k] = watch[k] - (watch[k] > EXPIRED);
		k++
	:: else -> break
	od
}

/* check has the invariants. */
inline check() {
	sum = rest; k = 0;
	do
	:: k < N ->
		sum = sum + part[k];
		/* A usable share is in the row. */
		assert(!live(k) || own[k] <= part[k]);
		if
		:: stage[k] == IDLE && !live(k) -> own[k] = 0; level[k] = 0; lease[k] = 0 /* it is dropped */
		:: else
		fi;
		assert(level[k] <= own[k]);
		k++
	:: else -> break
	od;
	/* The parts are the limit in force. */
	assert(sum == WHOLE(in_force));
	assert(rest >= 0 || LIMITS);
	/* All processes admit no more than the larger limit. */
	assert(admitted <= W0 || admitted <= W1 && LIMITS);
	k = 0; want = 0; r = 0; m = 0; sum = 0; tokens = 0; n = 0; former = 0
}

#define STEP(guard, action) :: d_step { guard -> action; check() }

/* An exchange begins and reads the row in one step. If the row changes before the write, it is read again. */
#define BEGIN(i, guard, g, filled, h, asks, t, most) \
	STEP(stage[i] == IDLE && guard, begin(i, g, filled, h); send(i, asks, t, most))

#define HOLDER(i) \
	BEGIN(i, 1, 0, 0, 0, 0, 0, 0) \
	BEGIN(i, 1, 0, 0, 0, 0, 0, 1) \
	BEGIN(i, (W0 > 1), 0, 0, 0, 0, 0, 2) \
	BEGIN(i, live(i), 1, 0, 0, 0, 0, 0) \
	BEGIN(i, (live(i) && own[i] > 1), own[i], 0, 0, 0, 0, 0) \
	BEGIN(i, ASKS, 0, 0, 0, 1, 0, 0) \
	BEGIN(i, ASKS, 0, 0, 0, 1, 1, 1) \
	BEGIN(i, (TOKENS && live(i) && level[i] > 0), 1, 1, 0, 0, 0, 0) \
	BEGIN(i, (TOKENS && live(i) && level[i] > 0 && own[i] > 1), own[i], 1, 0, 0, 0, 0) \
	BEGIN(i, (TOKENS && live(i) && level[i] > 0 && own[i] > 1), 0, 0, 1, 1, 0, 0) \
	BEGIN(i, (TOKENS && live(i) && level[i] > 0 && own[i] > 1), 0, 0, 1, 1, 1, 0) \
	STEP(stage[i] == BEGUN, abort(i)) \
	STEP(stage[i] == BEGUN, send(i, hand[i] > 0, 0, 0)) \
	STEP(stage[i] == BEGUN, send(i, hand[i] > 0, 0, 1)) \
	STEP(ASKS && stage[i] == BEGUN, send(i, 1, 1, 0)) \
	STEP(state[i] == FRESH, write(i, i)) \
	STEP(stage[i] == SENT && state[i] == DONE, reply(i, 0)) \
	STEP(stage[i] == SENT && state[i] == DONE && hand[i] > 0, reply(i, 1)) \
	STEP(stage[i] != IDLE, lose(i, 0)) \
	STEP(state[i] == FRESH, lose(i, 1)) \
	STEP(state[N] == FRESH && writer == i, write(N, i)) \
	STEP(live(i) && level[i] > 0, level[i]--; admitted++)

active proctype shares() {
	do
	HOLDER(0)
	HOLDER(1)
#if N > 2
	HOLDER(2)
#endif
	STEP(true, tick())
	od
}
