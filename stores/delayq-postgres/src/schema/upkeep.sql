-- Upkeep, by one instance at a time.

-- Takes rows out of the ledger and adds them to the counts: those of transactions that are
-- decided, so that no later row belongs to an earlier transaction. Answers their number, or NULL
-- if another instance does it now. p_most: about as many as one call takes.
CREATE FUNCTION fold_v1(p_most int) RETURNS bigint PINNED LANGUAGE plpgsql AS $$
DECLARE
    v_end xid8;
    v_part xid8;
    v_folded bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock('ledger'::regclass::oid::int, 1) THEN
        RETURN NULL;
    END IF;
    v_end := pg_snapshot_xmin(pg_current_snapshot());
    -- After a long transaction there may be millions: each call takes a part.
    SELECT max(x.xid) INTO v_part FROM (
        SELECT l.xid FROM counts c CROSS JOIN LATERAL (
            SELECT l.xid FROM ledger l
            WHERE l.type = c.type AND l.xid >= folded_v1(c.folded) AND l.xid < v_end
            ORDER BY l.xid LIMIT p_most) l
        ORDER BY l.xid LIMIT p_most
    ) x;
    IF v_part IS NULL THEN
        RETURN 0;
    END IF;
    -- All rows of a transaction are taken together.
    v_end := least(v_end, (v_part::text::bigint + 1)::text::xid8);
    WITH taken AS (
        DELETE FROM ledger l USING counts c
        WHERE l.type = c.type AND l.xid >= folded_v1(c.folded) AND l.xid < v_end
        RETURNING l.*
    ), sums AS (
        SELECT type, count(*) AS rows, sum(scheduled) AS scheduled, sum(running) AS running,
            sum(dead) AS dead, sum(ended) AS ended, sum(done) AS done, sum(died) AS died,
            sum(cancelled) AS cancelled, sum(expired) AS expired, sum(failed) AS failed,
            sum(refused) AS refused, max(fence) AS fence
        FROM taken GROUP BY type
    ), added AS (
        UPDATE counts c SET scheduled = c.scheduled + s.scheduled, running = c.running + s.running,
            dead = c.dead + s.dead, ended = c.ended + s.ended, done = c.done + s.done,
            died = c.died + s.died, cancelled = c.cancelled + s.cancelled,
            expired = c.expired + s.expired, failed = c.failed + s.failed,
            refused = c.refused + s.refused, fence = greatest(c.fence, s.fence), folded = v_end
        FROM sums s WHERE c.type = s.type
        RETURNING s.rows
    )
    SELECT coalesce(sum(rows), 0) INTO v_folded FROM added;
    RETURN v_folded;
END $$;

-- Forgets ended tasks of a type: up to p_limit of those that ended up to p_before, and of the
-- oldest beyond p_most. p_floor: none that is older is left. Answers the number, and the end of
-- the last one.
CREATE FUNCTION forget_v1(p_type int, p_before bigint, p_most bigint, p_limit int, p_floor bigint)
RETURNS TABLE (o_forgotten int, o_last bigint) PINNED LANGUAGE plpgsql AS $$
DECLARE
    v_excess bigint := (counts_v1(p_type)).ended - p_most;
    v_early bigint;
BEGIN
    WITH old AS MATERIALIZED (
        SELECT x.tid, x.at, row_number() OVER (ORDER BY x.at, x.id) AS n FROM (
            (SELECT t.ctid AS tid, t.at, t.id FROM tasks t
                WHERE t.type = p_type AND t.state = 3 AND t.at >= p_floor
                ORDER BY t.at, t.id LIMIT p_limit)
            UNION ALL
            (SELECT t.ctid, t.at, t.id FROM tasks t
                WHERE t.type = p_type AND t.state = 4 AND t.at >= p_floor
                ORDER BY t.at, t.id LIMIT p_limit)
            UNION ALL
            (SELECT t.ctid, t.at, t.id FROM tasks t
                WHERE t.type = p_type AND t.state = 5 AND t.at >= p_floor
                ORDER BY t.at, t.id LIMIT p_limit)
        ) x
    ), gone AS (
        DELETE FROM tasks t USING old o
        WHERE t.ctid = o.tid AND t.type = p_type AND t.state > 2 AND t.at = o.at
            AND o.n <= p_limit AND (o.at <= p_before OR o.n <= v_excess)
        RETURNING t.at
    )
    SELECT count(*), max(g.at), max(g.at) FILTER (WHERE g.at > p_before)
        INTO o_forgotten, o_last, v_early FROM gone g;
    IF o_forgotten > 0 THEN
        INSERT INTO ledger (type, ended) VALUES (p_type, -o_forgotten);
    END IF;
    IF v_early IS NOT NULL THEN
        UPDATE counts SET forgotten = greatest(forgotten, v_early) WHERE type = p_type;
    END IF;
    RETURN NEXT;
END $$;
