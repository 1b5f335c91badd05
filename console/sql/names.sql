-- A name to sign in with is in its normal form, so that one person has one account (console/accounts/addresses.py). The
-- domain's IDNA form and full case folding are beyond a constraint; whoever writes a name does them.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_constraint WHERE conname = 'user_name_in_normal_form') THEN
        ALTER TABLE console_user ADD CONSTRAINT user_name_in_normal_form
            CHECK (username = lower(btrim(normalize(username, NFKC))));
    END IF;
END $$;
