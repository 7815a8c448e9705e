/** What a check found. `remedy`: what to do, as an imperative; '' where nothing is to be done. */
export interface Finding {
  readonly state: 'ok' | 'warning' | 'fault';
  readonly text: string;
  readonly remedy: string;
}

export const ok = (text: string): Finding => ({ state: 'ok', text, remedy: '' });
export const warning = (text: string, remedy: string): Finding => ({ state: 'warning', text, remedy });
export const fault = (text: string, remedy: string): Finding => ({ state: 'fault', text, remedy });
