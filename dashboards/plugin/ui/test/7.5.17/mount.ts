import ReactDOM from 'react-dom';

export const mount = (page: any, root: HTMLElement) => (ReactDOM as any).render(page, root);
