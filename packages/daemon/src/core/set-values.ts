/** Config without the keys whose value is empty: in a request an empty value means "not set". */
export function setValues(config: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(config).filter(([, value]) => value !== ''));
}

/** The same for the options of every device. */
export function setDevices(
  devices: Readonly<Record<string, Readonly<Record<string, string>>>>,
): Record<string, Record<string, string>> {
  return Object.fromEntries(Object.entries(devices).map(([name, device]) => [name, setValues(device)]));
}
