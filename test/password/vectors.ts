/**
 * Stored values and their passwords, made by other programs: CPython's hashlib and crypt (libxcrypt), the reference
 * argon2 through argon2-cffi, the C bcrypt, OpenLDAP's slappasswd, and mkpasswd of Debian's whois (yescrypt, scrypt).
 */
const clear = 'correct hörse';
const long = 'x'.repeat(80);

/** What slapd 2.5 itself stores under `password-hash {ARGON2}`: the encoded hash, a NUL, and another byte. */
export const SLAPD_ARGON2 = {
  clear: 'third long secret',
  stored: '{ARGON2}$argon2i$v=19$m=4096,t=3,p=1$Sw0dpl4zN8yxZ3fgRI36nQ$OvPgqnnr4PPn4YMYGTPJB1zDOZ+mCI4Ci6ol698pM24\0\0',
  /** Values of pwdHistory, in the same form, and their passwords. */
  history: {
    'first long secret':
      '20261128120515Z#1.3.6.1.4.1.1466.115.121.1.40#105#{ARGON2}$argon2i$v=19$m=4096,t=3,p=1$ySvH7SenupTo/NFml5xQ9g$KthJ5Orgs7Cd09AZWb5liq+LxHz/KrXnk9vvpdnN4c0\0\0',
    'second long secret':
      '20261128120515Z#1.3.6.1.4.1.1466.115.121.1.40#105#{ARGON2}$argon2i$v=19$m=4096,t=3,p=1$kfUDtTzK2Z/XKm7k2zsTYw$GFzZPrz+jb7TNiPzcbrfkRHlOy7q+1EgIKV8MwBuCE0\0\0',
  },
} as const;

/** Answered at once. */
export const fastVectors: readonly (readonly [stored: string, clear: string])[] = [
  ['{MD5}MPGMX14/WpyXUAPsEPAZWA==', clear],
  ['{SMD5}j56SGwSDhwKCEGwLTFJ/DwECAwQFBgcI', clear],
  ['{SHA}rJD/5olTxW7AqKHZorModWn6ltY=', clear],
  ['{SSHA}HBsKEfcrR9wu/yMSTm1INcFqyeEBAgMEBQYHCA==', clear],
  ['{SHA256}j7uNwFVXQoiOuXBvoNRPDcadMD6uTMsvpYwtIqw2Qis=', clear],
  ['{SSHA256}/c4NOAvxBoixB7189LCvMjugL7se/GXM/jFgziGAVfcBAgMEBQYHCA==', clear],
  ['{SHA384}boOIvHNeE6j+I06T5GNGTLRcA7fWUo3ua/zpzf6yjFjjBx3tp9NmPsqVl/+6ZeEE', clear],
  ['{SSHA384}FSF0UQZXUQsxHY//h4A6tKLa8lq9kWDdY5lf5/zRCLLF793S5LcNN24icn9NuVoVAQIDBAUGBwg=', clear],
  ['{SHA512}KOgXCcz7iHiZUaic8uZYaMq4YfwFsrtwAfXAAjpETGA3sBgscoFX14piOfb0ci6gVEJVhpDeFYVW1xwG2ZUIHQ==', clear],
  ['{SSHA512}AxLMbSIeUFqzZoZY1WFRbyebcXN0sg5GZ16ogsOsxasWRl9bcKS4NFmjlQXGQb0qSt0caN/KeUri1FCFE083awECAwQFBgcI', clear],
  [
    '{SSHA512}nk5JOyokB3fbjiffvswvdTFnXWwr7om5bhUSnVGNXjRjtwaw+IV/zQQQXNSbP4LSOhBsFhY286BCY8nGUirwBRu/y5pmWI8A',
    'secret',
  ],
  ['{SSHA}MDMxPOJ0RRnnLx0ABLNr2PozekikvkUa', 'secret'],
  ['{ssha}MDMxPOJ0RRnnLx0ABLNr2PozekikvkUa', 'secret'],
  ['{SMD5}PvWeeg89Jh2032FwlIS3K8Bt7lk=', 'secret'],
  ['{CLEARTEXT}secret', 'secret'],
  ['secret', 'secret'],
  ['{not a scheme}', '{not a scheme}'],
];

/** Answered with a promise. */
export const slowVectors: readonly (readonly [stored: string, clear: string])[] = [
  ['{PBKDF2}1000$8PHy8/T19vf4.fr7/P3./w$MltuDarT.nu/infM.XVZUjBIBLc', clear],
  ['{PBKDF2-SHA1}1000$8PHy8/T19vf4.fr7/P3./w$MltuDarT.nu/infM.XVZUjBIBLc', clear],
  ['{PBKDF2-SHA256}1000$8PHy8/T19vf4.fr7/P3./w$LESiOTY1ewW0Ix0ffNzEZr.3JJAMNb6IXDxqV74pzn4', clear],
  [
    '{PBKDF2-SHA512}1000$8PHy8/T19vf4.fr7/P3./w$g0meiCWZgXutwSA46AhKh3RaRrTuen9EeyxwMUnFHUDybO5VUD.uqCgwNKcmKtYyie0vYxmITGIzpbrsu8SVMg',
    clear,
  ],
  ['{ARGON2}$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQxMjM0NTY3OA$0ZtEDbekJg7MXILiuP4qiqLRWf92tmPwTzGQ1lJ+4D8', clear],
  ['{ARGON2}$argon2i$v=19$m=256,t=2,p=1$c29tZXNhbHQxMjM0NTY3OA$0qNBdL/wa347ZBHoJi9/vPXXqLpw+20nxSO57FlN4nI', clear],
  ['{ARGON2}$argon2d$v=19$m=256,t=2,p=1$c29tZXNhbHQxMjM0NTY3OA$DZCNW01MEEzQoTV+bzSzDVGskEPVLZYpmghoVdakoIw', clear],
  ['{ARGON2}$argon2i$v=16$m=256,t=2,p=1$c29tZXNhbHQxMjM0NTY3OA$47+7pwJ6cE/14xjRtKX8z7ThQzpxvSxdz1TjiAd1KBU', clear],
  ['{ARGON2}$argon2id$v=19$m=1024,t=3,p=4$c29tZXNhbHQxMjM0NTY3OA$kJ9t+3PXoVOAIWUCldQc3SMBIfnSpxQc', clear],
  ['{ARGON2}$argon2i$v=19$m=4096,t=3,p=1$vsoCTq7paUATwOF14Lx/zg$YxiZSIG8qwJ8rqKRkVJzR/7w7fD3/42NpAL2fm9Lt+k', 'secret'],
  [SLAPD_ARGON2.stored, SLAPD_ARGON2.clear],
  [SLAPD_ARGON2.stored.replace(/\0$/, 'K$'), SLAPD_ARGON2.clear],
  ['{CRYPT}$1$abcdefgh$L9uHN1rMqygIoj.XIVou50', clear],
  ['{CRYPT}$1$x$1uBgl7IzRnPPE026FWEcl.', clear],
  ['{CRYPT}$1$abcdefgh$06aFAnVfqM7H4kDMwscRI1', long],
  ['{CRYPT}$5$saltstring$5L4PiEd.e4YT5P/xkmJeFS8WxWAjXjzXVozgcZ7iSS3', clear],
  ['{CRYPT}$5$rounds=1400$anotherlongsalts$8HfitPi9jMBn9F4PiJwIk8p.AYj/PO3vLvZWunCOB76', clear],
  ['{CRYPT}$5$saltstring$jZdy2gGq0OUSP01AhBb7yOgBitgAZa7g8axx/wgsXj5', long],
  [
    '{CRYPT}$6$saltstring$MtQHkV3ATuXbzX/eAt.atDIjzGPo.7mXputp5XCVkCElZ2FBQNv3z6W1qu5Uh2tAU4OeUhW12ELic75piuHt61',
    clear,
  ],
  [
    '{crypt}$6$rounds=1234$s$S9lc8/CtQdy.XjFwdFQQZO5m1s4PaJ1AYtY6rvE6gnvND/28Jc3aQVlufWeDV1GNm5AkbkCLACEeK3e6dGJ.90',
    clear,
  ],
  ['{CRYPT}$6$saltstring$eKlwYdh2DQgzGVZNTRbDdwNSIU.yzEhS/nALlBafFhL/T/Kf8GRhO5otN52zAGQKa229QbUXUyFPbCMzMf2HX0', long],
  [
    '{CRYPT}$6$WfgNO3ebK4uR$bcklj6YS4IG3JL6iqL5nsA7luOxUmmSGCU4DAHjdIStxvYNgRe2hW1xiI4FWtj4yd9/fmVFRaTnNPjyjtq9.F0',
    'secret',
  ],
  // mkpasswd -m yescrypt, with -R 1, 2, 3 and its default.
  ['{CRYPT}$y$j75$diTGshq0RfqiDr6A59ubi0$1IF5tW6S0pRWpZtS8wckxigEX01mv5Er73EzVDEFY24', 'secret'],
  ['{CRYPT}$y$j85$tOPErUnAE0E7rATQ5LrIe.$rWEYukZy7AOxL2LlF8d9VfVodRQc4lR/4bwxxQoNoVD', 'secret'],
  ['{CRYPT}$y$j7T$76oOelG4L3SCDWG1VXV8t.$ZXbdVIbOxf7xJF.BSt9BHVUamUVrcYjPVI5FE1rJHY2', 'secret'],
  ['{CRYPT}$y$j9T$l1Cr8gdDfVhuX1NZMoIaF.$..TOt1p60VybirX3TaQ0u3rhq2i7zZyShGj33K/Kjm6', 'secret'],
  ['{CRYPT}$y$j5.$abcdefgh$z7e50d0dXnJXPXxOcln8vDlVAalO0U6ceAmBMgUGRh5', 'secret'],
  ['{CRYPT}$y$j75$2zdpLoyeotmEX5Ux6CBip/$ijFsEhBQ2y/9Cp0RC2z/P7GFd8y2fbBxP.kWWSEya57', clear],
  ['{CRYPT}$y$j75$X.lcfimf8O4MMXGJIV1LZ/$PUYvhy95i1R4uXfeQCFTFaMDKarc2gkyaz0E2TRnte4', 'x'.repeat(400)],
  ['{CRYPT}$7$BU..../....CwGB4NFd70k263XuWFC10/$lQfvEtZRxxc6fgnX7hEPE5/7O9X5h9bGFkxG6vp6ld4', 'secret'],
  ['{CRYPT}abhfCpXqd4GrI', clear],
  ['{CRYPT}./DA5yokVJ1R2', clear],
  ['{CRYPT}$2a$04$abcdefghijklmnopqrstuu6hXClE3y3ppxadbz1kXCSyMGvbkYXqq', clear],
  ['{CRYPT}$2b$05$abcdefghijklmnopqrstuu2l6KOA9D/61qJO06UBoSQCzHyepuxn2', clear],
  ['{BCRYPT}$2y$04$abcdefghijklmnopqrstuu6hXClE3y3ppxadbz1kXCSyMGvbkYXqq', clear],
];

/** Malformed, of unknown schemes, or asking for too much: these verify nothing and answer at once. */
export const unusable: readonly string[] = [
  '',
  '{SSHA}',
  '{SSHA}MDMxPOJ0RRnnLx0ABLNr2PozekikvkUa!',
  '{SSHA}!DMxPOJ0RRnnLx0ABLNr2PozekikvkUa',
  '{SSHA}rJD/5olTxW7AqKHZorModWn6ltY=',
  '{SHA}rJD/5olTxW7AqKHZorModWn6ltYA',
  '{SHA}rJD/5olTxW7AqKHZorModWn6lt',
  '{SHA}rJD/5olTxW7AqKHZorModWn6ltY===',
  '{NOSUCH}secret',
  '{SASL}secret',
  '{PBKDF2-SHA256}',
  '{PBKDF2-SHA256}1000000000$8PHy8/T19vf4.fr7/P3./w$LESiOTY1ewW0Ix0ffNzEZr.3JJAMNb6IXDxqV74pzn4',
  '{PBKDF2-SHA256}0$8PHy8/T19vf4.fr7/P3./w$LESiOTY1ewW0Ix0ffNzEZr.3JJAMNb6IXDxqV74pzn4',
  '{PBKDF2-SHA256}-5$8PHy8/T19vf4.fr7/P3./w$LESiOTY1ewW0Ix0ffNzEZr.3JJAMNb6IXDxqV74pzn4',
  '{PBKDF2-SHA256}1000$8PHy8/T19vf4.fr7/P3./w$LESi',
  '{PBKDF2-SHA256}1000$$LESiOTY1ewW0Ix0ffNzEZr.3JJAMNb6IXDxqV74pzn4',
  '{ARGON2}',
  '{ARGON2}$argon2id$v=19$m=4294967295,t=1,p=1$c29tZXNhbHQxMjM0NTY3OA$0ZtEDbekJg7MXILiuP4qiqLRWf92tmPwTzGQ1lJ+4D8',
  '{ARGON2}$argon2id$v=19$m=256,t=1000000000,p=1$c29tZXNhbHQxMjM0NTY3OA$0ZtEDbekJg7MXILiuP4qiqLRWf92tmPwTzGQ1lJ+4D8',
  '{ARGON2}$argon2id$v=19$m=262144,t=64,p=1$c29tZXNhbHQxMjM0NTY3OA$0ZtEDbekJg7MXILiuP4qiqLRWf92tmPwTzGQ1lJ+4D8',
  '{ARGON2}$argon2id$v=19$m=256,t=2,p=255$c29tZXNhbHQxMjM0NTY3OA$0ZtEDbekJg7MXILiuP4qiqLRWf92tmPwTzGQ1lJ+4D8',
  '{ARGON2}$argon2x$v=19$m=256,t=2,p=1$c29tZXNhbHQxMjM0NTY3OA$0ZtEDbekJg7MXILiuP4qiqLRWf92tmPwTzGQ1lJ+4D8',
  '{CRYPT}',
  '{CRYPT}*0',
  '{CRYPT}x',
  '{CRYPT}abhfCpXqd4Gr',
  '{CRYPT}$9$salt$abc',
  '{CRYPT}$2b$05$short',
  // One GiB of memory, a cost of 2⁶³, other flags, two threads, a salt and a hash that are too short.
  '{CRYPT}$y$jFT$abcdefgh$IUWJt2doU4Kf6E/JP1UkAT3S5O3Q7SSA8SJirXIlEu9',
  '{CRYPT}$7$0U..../....abcdefgh$IUWJt2doU4Kf6E/JP1UkAT3S5O3Q7SSA8SJirXIlEu9',
  '{CRYPT}$7$z6..../....abcdefgh$IUWJt2doU4Kf6E/JP1UkAT3S5O3Q7SSA8SJirXIlEu9',
  '{CRYPT}$y$.9T$abcdefgh$IUWJt2doU4Kf6E/JP1UkAT3S5O3Q7SSA8SJirXIlEu9',
  '{CRYPT}$y$j9T/.$abcdefgh$IUWJt2doU4Kf6E/JP1UkAT3S5O3Q7SSA8SJirXIlEu9',
  '{CRYPT}$y$j9T$abcde$IUWJt2doU4Kf6E/JP1UkAT3S5O3Q7SSA8SJirXIlEu9',
  '{CRYPT}$y$j9T$abcdefgh$IUWJt2doU4Kf6E/JP1UkAT3S5O3Q7SSA8SJirXIlE',
  // scrypt wants N below 2 to the power of 16 r (RFC 7914 §2).
  '{CRYPT}$7$E/..../....abcdefgh$IUWJt2doU4Kf6E/JP1UkAT3S5O3Q7SSA8SJirXIlEu9',
];

/** Only the worker thread finds out that these are unusable. */
export const unusableSlow: readonly string[] = [
  '{CRYPT}$6$rounds=999999999$s$S9lc8/CtQdy.XjFwdFQQZO5m1s4PaJ1AYtY6rvE6gnvND/28Jc3aQVlufWeDV1GNm5AkbkCLACEeK3e6dGJ.90',
  '{CRYPT}$6$rounds=10$s$S9lc8/CtQdy.XjFwdFQQZO5m1s4PaJ1AYtY6rvE6gnvND/28Jc3aQVlufWeDV1GNm5AkbkCLACEeK3e6dGJ.90',
  '{CRYPT}$6$rounds=x$s$S9lc8',
  '{CRYPT}$6$',
  '{CRYPT}$1$$',
  '{CRYPT}$1$abcdefghijkl$L9uHN1rMqygIoj.XIVou50',
  '{CRYPT}$2b$31$abcdefghijklmnopqrstuu2l6KOA9D/61qJO06UBoSQCzHyepuxn2',
  '{CRYPT}$2b$00$abcdefghijklmnopqrstuu2l6KOA9D/61qJO06UBoSQCzHyepuxn2',
];
