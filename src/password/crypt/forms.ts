/** The forms of crypt(3) text that are verified. */
export const forms = {
  sha: /^\$[56]\$/,
  md5: /^\$1\$/,
  bcrypt: /^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}$/,
  des: /^[./0-9A-Za-z]{13}$/,
};

/** Whether `cryptText` has a function for it; what it cannot verify for another reason is found out there. */
export function isCryptText(stored: string): boolean {
  return Object.values(forms).some((form) => form.test(stored));
}
