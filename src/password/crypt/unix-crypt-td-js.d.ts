declare module 'unix-crypt-td-js' {
  /**
   * crypt(3)'s DES form: 13 characters, the salt's two first. Only the low seven bits of the first eight bytes count.
   */
  export default function unixCryptTD(password: readonly number[], salt: string): string;
}
