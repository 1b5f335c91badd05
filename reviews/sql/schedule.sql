-- Every row of the schedule is written anew at each reading: what is dead must go while the table is small.

ALTER TABLE reviews_schedule SET (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000
);
